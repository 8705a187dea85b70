#pragma once

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// Activations. relu(-0) is +0, and ReLU's derivative at 0 is 0. gelu is x Phi(x); gelu_tanh its approximation by tanh;
// silu, also called swish, is x sigmoid(x). NaN stays NaN.
Var relu(const Var& x, SourceLine line = SourceLine::here());
Var gelu(const Var& x, SourceLine line = SourceLine::here());
Var gelu_tanh(const Var& x, SourceLine line = SourceLine::here());
Var silu(const Var& x, SourceLine line = SourceLine::here());

}  // namespace jnorm
