#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <jnorm/autograd/parameter.hpp>

namespace jnorm {

// Parameters that an optimizer treats unlike the rest: those whose path fits a pattern, "blocks.0.*" or "*.gamma".
struct ParameterGroup {
  std::string pattern;
  std::optional<double> learning_rate_scale = std::nullopt;  // times the optimizer's learning rate; unset: 1
  std::optional<double> weight_decay = std::nullopt;         // in place of the optimizer's; unset: the optimizer's
};

// Whether the whole of `name` fits: * stands for any characters, dots and none included, and ? for any one.
bool fits_pattern(std::string_view name, std::string_view pattern);

// The parameters whose paths fit. Throws Error(argument) if there are none, with `what` in front and the nearest name:
// freeze: no parameter fits "token_embeding.*"; did you mean token_embedding.*?
std::vector<Parameter*> parameters_that_fit(std::string_view what, std::string_view pattern,
                                            std::span<Parameter* const> parameters);

}  // namespace jnorm
