#pragma once

// Operations that cut tensors and join them.

#include <initializer_list>
#include <span>
#include <vector>

#include <jnorm/autograd/tape.hpp>
#include <jnorm/core/parts.hpp>

namespace jnorm {

// A range of each axis, as Python has it; axes that none is given for are whole:
//   slice(x, {{1, 3}, {}, {.step = 2}})    is x[1:3, :, ::2]
//   slice(x, -1, {.start = -2})            is x[..., -2:]
// Throws Error(argument) on more ranges than axes, an axis out of range, or a step that isn't positive.
Var slice(const Var& x, std::initializer_list<Range> ranges, SourceLine line = SourceLine::here());
Var slice(const Var& x, int axis, const Range& range, SourceLine line = SourceLine::here());
Var slice(const Var& x, const Part& part, SourceLine line = SourceLine::here());
// x as that part of a tensor of the shape `whole`, zeros elsewhere: slice's adjoint. part_of says what a part is.
Var place(const Var& x, const Part& part, const Shape& whole, SourceLine line = SourceLine::here());

// One after another along an axis that they have, or along a new one. Many are joined four at a time. Throws
// Error(argument) if there are none, or if shapes, dtypes or devices don't fit.
Var concat(std::span<const Var> parts, int axis, SourceLine line = SourceLine::here());
Var concat(std::initializer_list<Var> parts, int axis, SourceLine line = SourceLine::here());
Var stack(std::span<const Var> parts, int axis, SourceLine line = SourceLine::here());
Var stack(std::initializer_list<Var> parts, int axis, SourceLine line = SourceLine::here());

// The inverse of concat: parts of these sizes, which must add up to the axis's, or so many equal ones.
std::vector<Var> split(const Var& x, std::initializer_list<Index> sizes, int axis,
                       SourceLine line = SourceLine::here());
std::vector<Var> split(const Var& x, Index parts, int axis, SourceLine line = SourceLine::here());

}  // namespace jnorm
