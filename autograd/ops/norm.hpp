#pragma once

// The normalizations.

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// Over the last axis: gamma (x - mean) / sqrt(variance + eps) + beta, with the biased variance. gamma and beta [H] may
// be undefined. Derivation: autograd/ops/layer_norm.md. Throws Error(argument) on a negative or NaN eps.
//
// Both norms take rows of any size up to half of the dtype's largest number, also where their squares overflow; eps
// keeps its meaning. A row of equal elements gives beta, and a zero row in rms_norm 0; with an eps of 0 they are 0/0,
// NaN.
inline constexpr double kNormEps = 1e-5;
Var layer_norm(const Var& x, const Var& gamma = {}, const Var& beta = {}, double eps = kNormEps,
               SourceLine line = SourceLine::here());

// Over the last axis: gamma x / sqrt(mean(x^2) + eps). Derivation: autograd/ops/rms_norm.md.
Var rms_norm(const Var& x, const Var& gamma = {}, double eps = kNormEps, SourceLine line = SourceLine::here());

}  // namespace jnorm
