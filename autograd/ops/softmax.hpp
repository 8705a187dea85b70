#pragma once

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// Over the last axis. An element of -inf is masked: its probability, and the gradient of softmax there, are exactly 0.
// A row of nothing but -inf is NaN (0/0).
Var softmax(const Var& x, SourceLine line = SourceLine::here());
Var log_softmax(const Var& x, SourceLine line = SourceLine::here());

}  // namespace jnorm
