#pragma once

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// x converted to another floating-point dtype, rounded to nearest; the gradient is converted back. x itself if it has
// the dtype. Throws Error(argument) for int32, which has no derivative.
Var to(const Var& x, DType dtype, SourceLine line = SourceLine::here());

}  // namespace jnorm
