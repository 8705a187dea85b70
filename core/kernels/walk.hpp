#pragma once

// Private to the CPU's kernels: walks over the elements of tensors that are described by strides.

#include <array>

#include <jnorm/core/parallel.hpp>
#include <jnorm/core/shape.hpp>

namespace jnorm::cpu {

using Sizes = std::array<Index, Shape::kMaxRank>;

inline Index inner_size(const Shape& shape) { return shape.rank() == 0 ? 1 : shape.last(); }
inline Index inner_stride(const Shape& shape, const Sizes& strides) {
  return shape.rank() == 0 ? 1 : strides[static_cast<std::size_t>(shape.rank() - 1)];
}

// Calls visit(row, offsets) for the rows [begin, end) of the innermost axis of `shape`, in row-major order, where
// offsets[n] is where the row begins under strides[n].
template <std::size_t N, class Visit>
void walk_rows(const Shape& shape, const std::array<Sizes, N>& strides, Index begin, Index end, Visit&& visit) {
  Sizes position{};
  std::array<Index, N> offsets{};
  const int outer = shape.rank() - 1;
  Index rest = begin;
  for (int axis = outer - 1; axis >= 0; --axis) {
    const auto a = static_cast<std::size_t>(axis);
    position[a] = rest % shape[axis];
    rest /= shape[axis];
    for (std::size_t n = 0; n < N; ++n) offsets[n] += position[a] * strides[n][a];
  }
  for (Index row = begin; row < end; ++row) {
    visit(row, offsets);
    for (int axis = outer - 1; axis >= 0; --axis) {
      const auto a = static_cast<std::size_t>(axis);
      const bool stays = ++position[a] < shape[axis];
      for (std::size_t n = 0; n < N; ++n) offsets[n] += strides[n][a] * (stays ? 1 : 1 - shape[axis]);
      if (stays) break;
      position[a] = 0;
    }
  }
}

// All rows of `shape`, on all threads.
template <std::size_t N, class Visit>
void for_each_row(const Shape& shape, const std::array<Sizes, N>& strides, Visit&& visit) {
  if (shape.size() == 0) return;
  const Index inner = inner_size(shape);
  parallel_for(shape.size() / inner, grain_for(inner),
               [&](Index begin, Index end) { walk_rows(shape, strides, begin, end, visit); });
}

// Calls visit(offset) for every element of `shape` in row-major order, where offset follows `strides`: the walk over
// one tensor's elements in another tensor's order.
template <class Visit>
void walk(const Shape& shape, const Sizes& strides, Visit&& visit) {
  if (shape.size() == 0) return;
  const Index inner = inner_size(shape), step = inner_stride(shape, strides);
  walk_rows<1>(shape, {strides}, 0, shape.size() / inner, [&](Index /*row*/, const std::array<Index, 1>& offsets) {
    for (Index i = 0; i < inner; ++i) visit(offsets[0] + i * step);
  });
}

}  // namespace jnorm::cpu
