#pragma once

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

struct CrossEntropyOptions {
  std::int32_t ignore_index = kIgnoreIndex;  // targets with this value count nowhere, even if it is a class
  double label_smoothing = 0.0;              // s in [0, 1): the share of the target that all classes divide equally
  Tensor class_weights = {};                 // w [V], finite and not negative; by default all 1
  Reduction reduction = Reduction::mean;
};

// logits [..., V], targets [...] of int32. With z = log softmax(logits), the loss of a target t is
//
//   -(1 - s) w[t] z[t] - (s / V) sum over c of w[c] z[c]
//
// and 0 if t is ignored: these are the definitions of PyTorch. Reduction::none gives [...] of them, sum a scalar, and
// mean the sum divided by the sum of w[t] over the targets that aren't ignored (without weights, by their number). A
// mean over nothing, where that sum is 0, is 0 and has zero gradients.
//
// Throws Error(argument) on a target that is neither in [0, V) nor ignored, and on other options than named here.
Var cross_entropy(const Var& logits, const Tensor& targets, const CrossEntropyOptions& options = {},
                  SourceLine line = SourceLine::here());

}  // namespace jnorm
