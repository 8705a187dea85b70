#pragma once

#include <span>
#include <string_view>

namespace jnorm {

// Where the norm N stands in a residual sublayer with branch F: data that ResidualSublayer reads, so that a paper's
// block is a few lines here and no class of its own.
struct Placement {
  const char* name;
  const char* formula;
  const char* jacobian;  // of the sublayer, from those of the branch and of the norm
  const char* source;
  bool norm_before_branch = false;
  bool norm_after_sum = false;
  bool final_norm = false;  // whether a model ends with one more norm unless told otherwise

  // NOLINTBEGIN(readability-identifier-naming): written as options and tables write them, Placement::pre
  static const Placement pre;
  static const Placement post;
  // NOLINTEND(readability-identifier-naming)

  static std::span<const Placement* const> all();
  static const Placement& named(std::string_view name);  // throws Error(argument) that lists the names

  friend bool operator==(const Placement& a, const Placement& b) { return std::string_view(a.name) == b.name; }
};

inline constexpr Placement Placement::pre{.name = "pre",
                                          .formula = "x + F(N(x))",
                                          .jacobian = "I + J_F J_N(x)",
                                          .source = "Wang et al. 2019, Xiong et al. 2020",
                                          .norm_before_branch = true,
                                          .final_norm = true};

inline constexpr Placement Placement::post{.name = "post",
                                           .formula = "N(x + F(x))",
                                           .jacobian = "J_N(x + F(x)) (I + J_F)",
                                           .source = "Vaswani et al. 2017",
                                           .norm_after_sum = true};

}  // namespace jnorm
