#include <jnorm/core/parts.hpp>

#include <algorithm>
#include <vector>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/layout.hpp>

namespace jnorm {

namespace {

// A bound as a position in [0, size].
Index position(Index bound, Index size) { return std::clamp<Index>(bound < 0 ? bound + size : bound, 0, size); }

// How a part lies in a tensor of the shape `whole`, which may have a leading axis more.
Strides strides_of(const Part& part, const Shape& whole) {
  Strides strides = row_major(whole);
  const auto lead = static_cast<std::size_t>(whole.rank() - part.sizes.rank());
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(part.sizes.rank()); ++axis) {
    strides.offset += part.starts[axis] * strides.steps[axis + lead];
    strides.steps[axis + lead] *= part.steps[axis];
  }
  return strides;
}

// The part's sizes, with the leading axis that x has more, if any.
Shape sizes_beside(const Part& part, const Tensor& x) {
  return x.rank() > part.sizes.rank() ? part.sizes.with_leading(x.dim(0)) : part.sizes;
}

void expect_room(const char* name, const Part& part, const Shape& whole) {
  const int lead = whole.rank() - part.sizes.rank();
  bool fits = lead == 0 || lead == 1;
  for (int axis = 0; fits && axis < part.sizes.rank(); ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    const Index size = part.sizes[axis];
    fits = size == 0 || (part.starts[a] >= 0 && part.steps[a] > 0 &&
                         part.starts[a] + (size - 1) * part.steps[a] < whole[axis + lead]);
  }
  expect(fits, "{}: a part of shape {} goes beyond {}", name, part.sizes, whole);
}

}  // namespace

Part part_of(const Shape& shape, std::span<const Range> ranges) {
  expect(static_cast<int>(ranges.size()) <= shape.rank(), "slice: {} has {} axes, but {} ranges were given", shape,
         shape.rank(), ranges.size());
  Part part;
  part.sizes = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    const Range range = a < ranges.size() ? ranges[a] : Range{};
    expect(range.step > 0, "slice: the step of axis {} must be positive, got {}", axis, range.step);
    part.starts[a] = position(range.start.value_or(0), shape[axis]);
    part.steps[a] = range.step;
    const Index length = position(range.stop.value_or(shape[axis]), shape[axis]) - part.starts[a];
    part.sizes = part.sizes.with_axis(axis, length <= 0 ? 0 : (length - 1) / range.step + 1);
  }
  return part;
}

Part part_along(const Shape& shape, int axis, const Range& range) {
  std::vector<Range> ranges(static_cast<std::size_t>(shape.resolve_axis(axis)) + 1);
  ranges.back() = range;
  return part_of(shape, ranges);
}

Tensor slice(const Tensor& x, const Part& part) {
  expect_room("slice", part, x.shape());
  Tensor y = Tensor::uninitialized(sizes_beside(part, x), x.dtype(), x.device());
  x.device().kernels().copy_strided(y.shape(), x, strides_of(part, x.shape()), y, row_major(y.shape()));
  return y;
}

Tensor place(const Tensor& x, const Part& part, const Shape& whole) {
  expect_room("place", part, whole);
  expect(x.shape() == sizes_beside(part, x) && x.rank() == whole.rank(), "place: {} doesn't fill a part of shape {}",
         x.shape(), part.sizes);
  Tensor y = zeros(whole, x.dtype(), x.device());
  x.device().kernels().copy_strided(x.shape(), x, row_major(x.shape()), y, strides_of(part, whole));
  return y;
}

Tensor concat(std::span<const Tensor> parts, int axis) {
  expect(!parts.empty(), "concat: at least one tensor is needed, got none");
  const Tensor& first = parts.front();
  axis = first.shape().resolve_axis(axis);
  Index length = 0;
  for (const Tensor& part : parts) {
    expect(part.rank() == first.rank() && part.shape().with_axis(axis, first.dim(axis)) == first.shape(),
           "concat: {} and {} differ in another axis than {}", first.shape(), part.shape(), axis);
    expect(part.dtype() == first.dtype() && part.device() == first.device(), "concat: {} on {} and {} on {} differ",
           first.dtype(), first.device().name(), part.dtype(), part.device().name());
    length += part.dim(axis);
  }
  Tensor y = Tensor::uninitialized(first.shape().with_axis(axis, length), first.dtype(), first.device());
  Index start = 0;
  for (const Tensor& part : parts) {
    Strides to = row_major(y.shape());
    to.offset = start * to.steps[static_cast<std::size_t>(axis)];
    start += part.dim(axis);
    y.device().kernels().copy_strided(part.shape(), part, row_major(part.shape()), y, to);
  }
  return y;
}

}  // namespace jnorm
