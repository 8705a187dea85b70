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

// Over the last axis: g x / sqrt(sum(x^2) + eps), with one number g, [] or [1], for all rows; undefined means 1. A zero
// row gives 0 with any eps: where it is 0 too, y and all derivatives are taken to be 0. Rows may be as large as in the
// norms above. Derivation: autograd/ops/scale_norm.md.
Var scale_norm(const Var& x, const Var& g = {}, double eps = kNormEps, SourceLine line = SourceLine::here());

// gamma tanh(alpha x) + beta, what stands in a norm's place: one number alpha, [] or [1]; gamma and beta [H] may be
// undefined. Derivation: autograd/ops/dynamic_tanh.md.
Var dynamic_tanh(const Var& x, const Var& alpha, const Var& gamma = {}, const Var& beta = {},
                 SourceLine line = SourceLine::here());

// Norms over channels see x as [outer, C, inner] around the channel axis: -1 for [..., C], 1 for PyTorch's [N, C, ...].
// gamma and beta [C] may be undefined. Values that are all equal where a statistic is taken give beta, and NaN if eps
// is 0.
struct ChannelNormOptions {
  double eps = kNormEps;
  int channel_axis = -1;
};

// Statistics for each outer index and each of `groups` groups of neighbouring channels, over the group's C / groups
// channels and inner. A group of one value gives beta. Throws Error(argument) unless groups is positive and divides C.
// Derivation: autograd/ops/group_norm.md.
Var group_norm(const Var& x, Index groups, const Var& gamma = {}, const Var& beta = {},
               const ChannelNormOptions& options = {}, SourceLine line = SourceLine::here());

// BatchNorm in training: statistics of each channel over outer and inner, with the biased variance.
//
// mask: int32, of x's shape without the channel axis; undefined means all 1. A position with 0 is left out, padding for
// instance: its y is 0 (not beta), it is no part of the statistics or of any gradient, and what stands in x there
// doesn't matter, NaN included.
//
// A channel of one value would give beta whatever it is, and has no unbiased variance: that is an Error(argument). An
// empty batch, or a mask that leaves nothing, gives an empty or zero y without gradients, count 0, mean and variance 0.
struct NormalizedBatch {
  Var y;
  Tensor mean, variance;  // [C], at least float32; for running statistics, no gradient flows through them
  Index count;            // values a channel that the statistics were taken over
};
struct BatchNormOptions {
  double eps = kNormEps;
  int channel_axis = -1;
  Tensor mask = {};
};
// Running statistics are the caller's: with momentum m, running_variance takes the unbiased estimate
// variance count / (count - 1), and nothing if count is 0 [BN.8]. Derivation: autograd/ops/batch_norm.md.
NormalizedBatch batch_norm(const Var& x, const Var& gamma = {}, const Var& beta = {},
                           const BatchNormOptions& options = {}, SourceLine line = SourceLine::here());

// BatchNorm in evaluation: gamma (x - running_mean) / sqrt(running_variance + eps) + beta, with constant statistics
// [C]. Any batch will do, an empty one too. Throws Error(argument) on a negative or NaN running variance.
Var batch_norm_evaluation(const Var& x, const Tensor& running_mean, const Tensor& running_variance,
                          const Var& gamma = {}, const Var& beta = {}, const ChannelNormOptions& options = {},
                          SourceLine line = SourceLine::here());

}  // namespace jnorm
