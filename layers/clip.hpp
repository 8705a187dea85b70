#pragma once

#include <span>

#include <jnorm/autograd/parameter.hpp>

namespace jnorm {

// Parameters without a gradient don't count in any of these. The gradients are those of a whole step: of several
// micro-batches, their sum is clipped, once.

// The Euclidean norm of all gradients together, accumulated in float64, and scaled where squares overflow even that.
double gradient_norm(std::span<Parameter* const> parameters);

// Scales all gradients by one factor, so that their norm is at most max_norm. Returns the norm before. If that isn't
// finite, the gradients stay as they are. Throws Error(argument) unless max_norm is positive.
double clip_gradient_norm(std::span<Parameter* const> parameters, double max_norm);

// The same without waiting for the device: the norm before stays there, as a tensor [] of float64.
Tensor queue_clip_gradient_norm(std::span<Parameter* const> parameters, double max_norm);

// Moves every element of every gradient into [-max_value, max_value]; NaN stays. Throws Error(argument) unless
// max_value is positive.
void clip_gradient_value(std::span<Parameter* const> parameters, double max_value);

}  // namespace jnorm
