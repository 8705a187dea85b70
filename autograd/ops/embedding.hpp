#pragma once

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// table [V, H], tokens [...] of int32 -> [..., H]. Throws Error(argument) on a token outside [0, V).
Var embedding(const Var& table, const Tensor& tokens, SourceLine line = SourceLine::here());

}  // namespace jnorm
