#pragma once

#include <span>

#include <jnorm/autograd/parameter.hpp>

namespace jnorm {

// Scales all gradients by one factor, so that their Euclidean norm, taken over all together, is at most max_norm.
// Returns the norm before, accumulated in float64. If that isn't finite, the gradients stay as they are. Parameters
// without a gradient don't count. Throws Error(argument) unless max_norm is positive.
double clip_gradient_norm(std::span<Parameter* const> parameters, double max_norm);

}  // namespace jnorm
