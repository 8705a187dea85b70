#include <jnorm/core/indexing.hpp>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/kernels.hpp>

namespace jnorm {

namespace {

// The shape that the index points into: without the leading axis that `whole` may have more.
Shape primal_of(const Shape& whole, const Tensor& index) {
  return whole.rank() > index.rank() ? whole.without_leading() : whole;
}

void expect_gatherable(const char* name, const Shape& whole, int axis, const Tensor& index) {
  expect(axis >= 0 && axis < index.rank(), "{}: axis {} is out of range for an index of shape {}", name, axis,
         index.shape());
  const Shape primal = primal_of(whole, index);
  bool fits = primal.rank() == index.rank();
  for (int a = 0; fits && a < primal.rank(); ++a) fits = a == axis || index.dim(a) <= primal[a];
  expect(fits, "{}: an index of shape {} doesn't fit {} beside axis {}", name, index.shape(), primal, axis);
  expect_index(name, index, primal[axis]);
}

void expect_selectable(const char* name, const Shape& whole, int axis, const Tensor& index) {
  expect(axis >= 0 && axis < whole.rank(), "{}: axis {} is out of range for shape {}", name, axis, whole);
  expect(index.defined() && index.rank() == 1, "{}: the index must be [n], got {}", name,
         index.defined() ? to_string(index.shape()) : "an undefined tensor");
  expect_index(name, index, whole[axis]);
}

}  // namespace

void expect_index(const char* operation, const Tensor& index, Index below) {
  expect(index.defined() && index.dtype() == DType::int32, "{}: the index must be int32, got {}", operation,
         index.defined() ? to_string(index.dtype()) : "an undefined tensor");
  const Tensor here = index.on_host();
  const std::int32_t* const values = here.data<std::int32_t>();
  for (Index i = 0; i < index.size(); ++i) {
    expect(values[i] >= 0 && values[i] < below, "{}: index {} at position {} is outside [0, {})", operation, values[i],
           i, below);
  }
}

Tensor index_select(const Tensor& x, int axis, const Tensor& index) {
  expect_selectable("index_select", x.shape(), axis, index);
  Tensor y = Tensor::uninitialized(x.shape().with_axis(axis, index.size()), x.dtype(), x.device());
  x.device().kernels().index_select(x, axis, index, y);
  return y;
}

Tensor index_add(const Tensor& x, int axis, const Tensor& index, const Shape& whole) {
  expect_selectable("index_add", whole, axis, index);
  expect(x.shape() == whole.with_axis(axis, index.size()), "index_add: {} doesn't fit {} with {} slices of axis {}",
         x.shape(), whole, index.size(), axis);
  Tensor y = Tensor::uninitialized(whole, x.dtype(), x.device());
  x.device().kernels().index_add(x, axis, index, y);
  return y;
}

Tensor gather(const Tensor& x, int axis, const Tensor& index) {
  expect_gatherable("gather", x.shape(), axis, index);
  const Shape shape = x.rank() > index.rank() ? index.shape().with_leading(x.dim(0)) : index.shape();
  Tensor y = Tensor::uninitialized(shape, x.dtype(), x.device());
  x.device().kernels().gather(x, axis, index, y);
  return y;
}

Tensor scatter_add(const Tensor& x, int axis, const Tensor& index, const Shape& whole) {
  expect_gatherable("scatter_add", whole, axis, index);
  expect(x.rank() == whole.rank() && x.shape().has_suffix(index.shape()), "scatter_add: {} doesn't fit an index of {}",
         x.shape(), index.shape());
  Tensor y = Tensor::uninitialized(whole, x.dtype(), x.device());
  x.device().kernels().scatter_add(x, axis, index, y);
  return y;
}

Tensor argmax(const Tensor& x, int axis) {
  const Shape& shape = x.shape();
  axis = shape.resolve_axis(axis);
  expect(shape[axis] > 0, "argmax: axis {} of {} has no elements", axis, shape);
  std::array<Index, Shape::kMaxRank> sizes{};
  std::size_t rank = 0;
  for (int a = 0; a < shape.rank(); ++a) {
    if (a != axis) sizes[rank++] = shape[a];
  }
  Tensor y = Tensor::uninitialized(Shape(std::span<const Index>(sizes.data(), rank)), DType::int32, x.device());
  x.device().kernels().argmax(x, axis, y);
  return y;
}

}  // namespace jnorm
