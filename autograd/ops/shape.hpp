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
Var transpose(const Var& x, SourceLine line = SourceLine::here());  // swaps the last two axes

}  // namespace jnorm
