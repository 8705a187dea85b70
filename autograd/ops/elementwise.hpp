#pragma once

// Functions of one operand.

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// Functions, elementwise. NaN goes through all of them, and so does a NaN cotangent.
Var exp(const Var& x, SourceLine line = SourceLine::here());
Var log(const Var& x, SourceLine line = SourceLine::here());
// sqrt's derivative at 0 is infinite, so sqrt(sum(square(x))) has none at x = 0 (NaN): add an eps below the root.
Var sqrt(const Var& x, SourceLine line = SourceLine::here());
Var rsqrt(const Var& x, SourceLine line = SourceLine::here());       // 1 / sqrt(x)
Var reciprocal(const Var& x, SourceLine line = SourceLine::here());  // 1 / x
Var square(const Var& x, SourceLine line = SourceLine::here());
Var tanh(const Var& x, SourceLine line = SourceLine::here());
Var erf(const Var& x, SourceLine line = SourceLine::here());
Var abs(const Var& x, SourceLine line = SourceLine::here());   // derivative 0 at 0
Var sign(const Var& x, SourceLine line = SourceLine::here());  // derivative 0 everywhere

}  // namespace jnorm
