#pragma once

#include <jnorm/autograd/tape.hpp>
#include <jnorm/core/random.hpp>

namespace jnorm {

// Sets each element to 0 with probability p and divides the others by 1 - p. A dropped element is exactly 0, even of an
// infinity; p = 1 gives zeros with zero gradients, and p = 0 gives x itself and draws nothing. The mask follows from
// the generator's state alone (n elements consume ceil(n / 4) blocks), so it doesn't depend on threads, and isn't
// stored. Throws Error(argument) unless 0 <= p <= 1.
Var dropout(const Var& x, double p, Rng& rng, SourceLine line = SourceLine::here());
// The same with the mask of this state, for `period` elements, which repeat.
Var dropout(const Var& x, double p, const Rng::State& mask, Index period, SourceLine line = SourceLine::here());

}  // namespace jnorm
