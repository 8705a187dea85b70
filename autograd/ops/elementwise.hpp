#pragma once

// Functions of one operand.

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// Functions, elementwise. NaN goes through all of them, and so does a NaN cotangent.
Var exp(const Var& x, SourceLine line = SourceLine::here());
Var log(const Var& x, SourceLine line = SourceLine::here());
// sqrt's derivative at 0 is infinite, so sqrt(sum(square(x))) has none at x = 0 (NaN): add an eps below the root, or
// take l2_norm. But where the cotangent is 0, as in a branch that isn't taken, log and sqrt give a gradient of 0 at 0.
Var sqrt(const Var& x, SourceLine line = SourceLine::here());
Var rsqrt(const Var& x, SourceLine line = SourceLine::here());       // 1 / sqrt(x)
Var reciprocal(const Var& x, SourceLine line = SourceLine::here());  // 1 / x
Var square(const Var& x, SourceLine line = SourceLine::here());
Var tanh(const Var& x, SourceLine line = SourceLine::here());
Var erf(const Var& x, SourceLine line = SourceLine::here());
Var abs(const Var& x, SourceLine line = SourceLine::here());      // derivative 0 at 0
Var sign(const Var& x, SourceLine line = SourceLine::here());     // derivative 0 everywhere
Var log1p(const Var& x, SourceLine line = SourceLine::here());    // ln(1 + x), exact for small x
Var expm1(const Var& x, SourceLine line = SourceLine::here());    // e^x - 1, exact for small x
Var sigmoid(const Var& x, SourceLine line = SourceLine::here());  // 1 / (1 + e^-x); nothing overflows

// x^p for a number p, with derivative p x^(p-1): that of x^0 is 0 and that of x^1 is 1 everywhere, at 0 too. As IEEE
// 754 has it, x^0 is 1 even for NaN; a negative x has powers of whole p only (NaN otherwise).
Var pow(const Var& x, double p, SourceLine line = SourceLine::here());
// a^b, elementwise after broadcasting. d/da = b a^(b-1), 0 where a and b are 0; d/db = a^b ln a, 0 where a = 0 and
// b >= 0, NaN where a < 0.
Var pow(const Var& a, const Var& b, SourceLine line = SourceLine::here());

}  // namespace jnorm
