#pragma once

// Elements chosen by index, unrecorded; names and meanings are those of <jnorm/autograd/ops/indexing.hpp>. An index is
// an int32 tensor. All throw Error(argument) on one out of range, and on shapes that don't fit.

#include <jnorm/core/tensor.hpp>

namespace jnorm {

// [.., L, ..], index [n] -> [.., n, ..]: y's slice j along the axis is x's slice index[j].
Tensor index_select(const Tensor& x, int axis, const Tensor& index);
// The adjoint: zeros of the shape `whole`, to whose slices index[j] x's slices j are added.
Tensor index_add(const Tensor& x, int axis, const Tensor& index, const Shape& whole);

// y[i, j, k] = x[i, index[i, j, k], k], for axis 1 of three: as many axes as the index, and none but `axis` shorter in
// x than in the index. The axis is one of the index's; x may have a leading axis more, along which the index repeats.
Tensor gather(const Tensor& x, int axis, const Tensor& index);
// The adjoint: zeros of the shape `whole`, to whose elements that gather would read x's elements are added.
Tensor scatter_add(const Tensor& x, int axis, const Tensor& index, const Shape& whole);

// Throws Error(argument) unless the index is int32 and holds numbers from 0 to below - 1 only.
void expect_index(const char* operation, const Tensor& index, Index below);

// The first position of the largest element along an axis, which goes away: [.., L, ..] -> [.., ..] of int32. NaN is
// the largest of all. Throws Error(argument) if the axis is empty.
Tensor argmax(const Tensor& x, int axis = -1);

}  // namespace jnorm
