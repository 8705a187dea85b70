#pragma once

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// logits [..., V], targets [...] of int32 -> scalar: the mean of -log softmax(logits)[target] over the targets that
// aren't kIgnoreIndex; 0 if there are none. Throws Error(argument) on another target outside [0, V).
Var cross_entropy(const Var& logits, const Tensor& targets, SourceLine line = SourceLine::here());

}  // namespace jnorm
