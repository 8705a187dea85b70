#pragma once

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// x's value, through which no derivative goes: a gradient stops here, and a tangent too. Shares x's storage.
Var detach(const Var& x, SourceLine line = SourceLine::here());

}  // namespace jnorm
