#pragma once

// Sets of axes, one bit an axis, as the operations over axes share them. Private.

#include <initializer_list>

#include <jnorm/autograd/site.hpp>

namespace jnorm {

// -1 -> rank - 1. Throws Error(argument) on an axis out of range.
inline int one_axis(const char* name, const Var& x, int axis, const Site& site) {
  expect(axis >= -x.rank() && axis < x.rank(), site, "{}: axis {} is out of range for shape {}", name, axis, x.shape());
  return x.shape().resolve_axis(axis);
}

// The bits of the named axes. Throws Error(argument) on an axis out of range or named twice.
inline std::uint32_t axis_bits(const char* name, const Var& x, std::initializer_list<int> axes, const Site& site) {
  std::uint32_t bits = 0;
  for (const int axis : axes) {
    const std::uint32_t bit = 1u << one_axis(name, x, axis, site);
    expect((bits & bit) == 0, site, "{}: axis {} is named twice", name, axis);
    bits |= bit;
  }
  return bits;
}

// The bits of all axes.
inline std::uint32_t all_axes(const Var& x) { return (1u << x.rank()) - 1u; }

// The number of elements along these axes.
inline Index count_of(const Shape& shape, std::uint32_t axes) {
  Index count = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if ((axes >> axis & 1u) != 0) count *= shape[axis];
  }
  return count;
}

// `shape` with size 1 at the axes whose bit is set: a sum's result with its axes kept.
inline Shape with_ones_at(Shape shape, std::uint32_t axes) {
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if ((axes >> axis & 1u) != 0) shape = shape.with_axis(axis, 1);
  }
  return shape;
}

}  // namespace jnorm
