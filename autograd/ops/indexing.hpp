#pragma once

// Operations that choose elements by index. An index is an int32 tensor and a constant; all throw Error(argument) on
// one out of range (negative ones too), and on shapes that don't fit.

#include <jnorm/autograd/tape.hpp>
#include <jnorm/core/indexing.hpp>

namespace jnorm {

// x [.., L, ..], index [n] -> [.., n, ..]: y's slice j along the axis is x's slice index[j]. Where an index stands
// twice, the gradients add.
Var index_select(const Var& x, int axis, const Tensor& index, SourceLine line = SourceLine::here());
// The adjoint: zeros of the shape `whole`, to whose slices index[j] x's slices j are added.
Var index_add(const Var& x, int axis, const Tensor& index, const Shape& whole, SourceLine line = SourceLine::here());

// y[i, j, k] = x[i, index[i, j, k], k], for axis 1 of three: x has as many axes as the index, and none but `axis` is
// shorter in x. Where an element is read twice, the gradients add.
Var gather(const Var& x, int axis, const Tensor& index, SourceLine line = SourceLine::here());
// The adjoint: zeros of the shape `whole`, to whose elements that gather would read x's elements are added.
Var scatter_add(const Var& x, int axis, const Tensor& index, const Shape& whole, SourceLine line = SourceLine::here());

}  // namespace jnorm
