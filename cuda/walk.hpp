#pragma once

// A walk over elements of two tensors at once, axis by axis, made as short as it can be before a kernel takes it.

#include <array>

#include <jnorm/core/layout.hpp>

namespace jnorm::cuda {

// How many steps an axis has, and how far each tensor goes with one of them.
struct WalkAxis {
  Index size = 1, from = 0, to = 0;
  friend bool operator==(const WalkAxis&, const WalkAxis&) = default;
};

struct Walk {
  std::array<WalkAxis, Shape::kMaxRank> axes{};  // the innermost first; of size 1 from `rank` on
  int rank = 0;
  Index from = 0, to = 0;  // where it begins
  Index count = 1;         // of elements

  WalkAxis& operator[](int axis) { return axes[static_cast<std::size_t>(axis)]; }
  const WalkAxis& operator[](int axis) const { return axes[static_cast<std::size_t>(axis)]; }
};

// The walk over all of `sizes` without axes of size 1, and with neighbouring axes that step as one joined.
Walk make_walk(const Shape& sizes, const Strides& from, const Strides& to);

// How many elements can move as one, in units of at most `most` elements that don't straddle: a power of two.
Index unit_of(const Walk& walk, Index most);

// The same walk in units of several elements.
Walk in_units(Walk walk, Index unit);

// The walk without one of its axes.
Walk without_axis(const Walk& walk, int axis);

}  // namespace jnorm::cuda
