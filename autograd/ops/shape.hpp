#pragma once

// Operations that move or repeat elements.

#include <initializer_list>
#include <span>

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// Shape.
Var reshape(const Var& x, const Shape& shape, SourceLine line = SourceLine::here());
Var broadcast_to(const Var& x, const Shape& shape, SourceLine line = SourceLine::here());
Var permute(const Var& x, std::span<const int> axes, SourceLine line = SourceLine::here());
Var permute(const Var& x, std::initializer_list<int> axes, SourceLine line = SourceLine::here());
Var transpose(const Var& x, SourceLine line = SourceLine::here());                // swaps the last two axes
Var transpose(const Var& x, int a, int b, SourceLine line = SourceLine::here());  // swaps these two
// A new axis of size 1, which becomes axis `axis` of the result; and such an axis taken away.
Var unsqueeze(const Var& x, int axis, SourceLine line = SourceLine::here());
Var squeeze(const Var& x, int axis, SourceLine line = SourceLine::here());
Var flatten(const Var& x, int first = 0, int last = -1, SourceLine line = SourceLine::here());  // those axes into one

}  // namespace jnorm
