#pragma once

// Private to the library's sources: how a Jacobian becomes a matrix.

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// d to / d from, [size of to, size of from], from reverse sweeps with several one-hot cotangents each, which carry the
// live rows alone. The sweeps run on all threads; the result doesn't depend on their number. On devices other than the
// CPU they run one after the other.
Tensor dense_jacobian(const Var& to, const Var& from, SourceLine line);

}  // namespace jnorm
