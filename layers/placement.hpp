#pragma once

#include <span>
#include <string>
#include <string_view>

#include <jnorm/layers/initialization.hpp>
#include <jnorm/layers/sublayer_place.hpp>

namespace jnorm {

// How one residual sublayer joins its branch F to the stream x, as data:
//
//   y = N'( alpha S(x) + lambda N''( F( c N(x) ) ) )        S(x) is x, or N(x) with norm_skip
//
// Norms that aren't asked for are left out, and so are factors of 1.
struct ResidualRule {
  bool norm_input = false;   // F sees N(x)
  bool norm_skip = false;    // so does the sum: N(x) + F(N(x)); needs norm_input
  bool norm_branch = false;  // N''
  bool norm_sum = false;     // N'; at most one of norm_branch and norm_sum
  bool norm_heads = false;   // F's queries, keys and values are normalized, if it is attention

  double skip_scale = 1.0;                                     // alpha
  double input_scale = 1.0;                                    // c
  enum class Gain { none, scalar, vector } gain = Gain::none;  // whether lambda is learned, and of which shape
  double gain_start = 0.0;

  bool adds_block_input = false;  // the sum gains what entered the block
  // x is two streams side by side, [..., 2 dim]. F reads the first. The first gives N'(first + F), the second gives
  // second + F.
  bool two_streams = false;

  BranchGains starting_gains = {};
};

// Where norms stand and how residuals are scaled: values that ResidualSublayer reads, so that a paper's block is a few
// lines in placement.cpp and no class of its own.
struct Placement {
  const char* name;
  const char* formula;   // of a sublayer, or of a block where its sublayers differ
  const char* jacobian;  // from those of the branch and of the norm
  const char* source;
  ResidualRule (*rule)(const SublayerPlace& place);
  bool final_norm = false;  // whether a model ends with one more norm unless told otherwise
  bool qk_norm = false;     // whether queries and keys are normalized unless told otherwise
  bool two_streams = false;

  // Whether the stream between blocks, from the first one on, comes out of a norm.
  bool normalizes_stream() const;

  // NOLINTBEGIN(readability-identifier-naming): written as options and tables write them, Placement::pre
  static const Placement pre;
  static const Placement post;
  static const Placement sandwich;
  static const Placement reordered;
  static const Placement deepnorm;
  static const Placement lns;
  static const Placement b2t;
  static const Placement residual;
  static const Placement mix;
  static const Placement hybrid;
  static const Placement keel;
  static const Placement rezero;
  static const Placement layerscale;
  static const Placement branch_scaled;
  static const Placement none;
  // NOLINTEND(readability-identifier-naming)

  static std::span<const Placement* const> all();
  static const Placement& named(std::string_view name);  // throws Error(argument) that lists the names

  friend bool operator==(const Placement& a, const Placement& b) { return std::string_view(a.name) == b.name; }
};

inline std::string to_string(const Placement& placement) { return placement.name; }

}  // namespace jnorm
