#pragma once

// Matrix products.

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// op(a) op(b) over the last two axes, where op transposes if asked; the other axes are batches and must be equal.
Var matmul(const Var& a, const Var& b, bool transpose_a = false, bool transpose_b = false,
           SourceLine line = SourceLine::here());

// x [..., in], weight [out, in], bias [out] or undefined -> [..., out].
Var linear(const Var& x, const Var& weight, const Var& bias = {}, SourceLine line = SourceLine::here());

}  // namespace jnorm
