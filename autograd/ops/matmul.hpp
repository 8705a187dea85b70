#pragma once

// Matrix products.

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// op(a) op(b) over the last two axes, where op transposes if asked. The other axes are batches and broadcast by NumPy's
// rule: [B, T, H] with a weight [H, K] gives [B, T, K]. A vector counts as a row on the left and as a column on the
// right, and that axis goes away again. An inner size of 0 gives zeros.
Var matmul(const Var& a, const Var& b, bool transpose_a = false, bool transpose_b = false,
           SourceLine line = SourceLine::here());

// x [..., in], weight [out, in], bias [out] or undefined -> [..., out].
Var linear(const Var& x, const Var& weight, const Var& bias = {}, SourceLine line = SourceLine::here());

}  // namespace jnorm
