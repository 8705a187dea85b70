#pragma once

// The bridge to xtensor. Including it costs seconds of compile time, so the library's other headers don't.

#include <vector>

#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xmath.hpp>

#include <jnorm/core/tensor.hpp>

namespace jnorm {

inline std::vector<std::size_t> xtensor_shape(const Shape& shape) { return {shape.begin(), shape.end()}; }

// A read-only view of a tensor's elements as an xtensor expression. It must not outlive the tensor.
// Throws Error(argument) if T isn't the tensor's element type.
template <class T>
auto as_xtensor(const Tensor& tensor) {
  return xt::adapt(tensor.data<T>(), static_cast<std::size_t>(tensor.size()), xt::no_ownership(),
                   xtensor_shape(tensor.shape()));
}
template <class T>
auto as_xtensor(const Tensor&& tensor) = delete;  // the view would dangle

// A writable view. Storage that other tensors share is copied first; the version counts up.
template <class T>
auto mutate(Tensor& tensor, SourceLine line = SourceLine::here()) {
  T* const elements = tensor.mutable_data<T>(line);
  return xt::adapt(elements, static_cast<std::size_t>(tensor.size()), xt::no_ownership(),
                   xtensor_shape(tensor.shape()));
}

// A tensor with the values of an xtensor expression.
template <class T = double, class Expression>
Tensor from_xtensor(const xt::xexpression<Expression>& expression) {
  const xt::xarray<T> values = expression.derived_cast();
  std::vector<Index> sizes(values.shape().begin(), values.shape().end());
  Tensor result = Tensor::uninitialized(Shape(std::span<const Index>(sizes)), dtype_of<T>);
  std::copy(values.begin(), values.end(), result.output_data<T>());
  return result;
}

}  // namespace jnorm
