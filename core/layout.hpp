#pragma once

// How tensors lie in memory: contiguous, row by row.

#include <jnorm/core/kernels.hpp>

namespace jnorm {

// How far each axis of a whole tensor steps, in elements: [2, 3, 4] by 12, 4 and 1.
inline Strides row_major(const Shape& shape) {
  Strides strides;
  Index step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides.steps[static_cast<std::size_t>(axis)] = step;
    step *= shape[axis];
  }
  return strides;
}

// A tensor seen from one axis: [outer, length, inner].
struct AlongAxis {
  Index outer = 1, length, inner = 1;
  AlongAxis(const Shape& shape, int axis) : length(shape[axis]) {
    for (int before = 0; before < axis; ++before) outer *= shape[before];
    for (int after = axis + 1; after < shape.rank(); ++after) inner *= shape[after];
  }
};

}  // namespace jnorm
