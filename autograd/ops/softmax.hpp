#pragma once

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// Over one axis, by default the last. An element of -inf is masked: its probability, and the gradient of softmax there,
// are exactly 0. A row of nothing but -inf is NaN, as 0/0 is, and so is one that holds +inf or NaN.
Var softmax(const Var& x, int axis = -1, SourceLine line = SourceLine::here());
Var log_softmax(const Var& x, int axis = -1, SourceLine line = SourceLine::here());

}  // namespace jnorm
