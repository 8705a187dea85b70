// Kernels that move elements or sum over axes, described by strides.

#include <array>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/parallel.hpp>

namespace jnorm::cpu {

namespace {

using Sizes = std::array<Index, Shape::kMaxRank>;

Sizes row_major_strides(const Shape& shape) {
  Sizes strides{};
  Index stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<std::size_t>(axis)] = stride;
    stride *= shape[axis];
  }
  return strides;
}

// Calls visit(offset) for every element of `shape` in row-major order, where offset follows `strides`: the walk over
// one tensor's elements in another tensor's order. The innermost axis is a plain loop.
template <class Visit>
void walk(const Shape& shape, const Sizes& strides, Visit&& visit) {
  if (shape.size() == 0) return;
  const int rank = shape.rank();
  if (rank == 0) return visit(Index{0});
  const Index inner = shape.last();
  const Index inner_stride = strides[static_cast<std::size_t>(rank - 1)];
  Sizes position{};
  Index offset = 0;
  const Index rows = shape.size() / inner;
  for (Index row = 0; row < rows; ++row) {
    for (Index i = 0; i < inner; ++i) visit(offset + i * inner_stride);
    for (int axis = rank - 2; axis >= 0; --axis) {
      const auto a = static_cast<std::size_t>(axis);
      offset += strides[a];
      if (++position[a] < shape[axis]) break;
      offset -= strides[a] * shape[axis];
      position[a] = 0;
    }
  }
}

// How `x` lies under the axes of the shape that it broadcasts to: stride 0 where it repeats.
Sizes broadcast_strides(const Shape& x, const Shape& y) {
  const Sizes own = row_major_strides(x);
  Sizes strides{};
  const int missing = y.rank() - x.rank();
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (x[axis] != 1) strides[static_cast<std::size_t>(axis + missing)] = own[static_cast<std::size_t>(axis)];
  }
  return strides;
}

}  // namespace

void broadcast(const Tensor& x, const Tensor& y) {
  dispatch_any("broadcast", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const in = x.data<T>();
    T* out = y.output_data<T>();
    if (y.shape().has_suffix(x.shape())) {  // whole copies, the case of a bias
      if (x.size() == 0) return;
      for (Index copy = 0; copy < y.size() / x.size(); ++copy) std::copy_n(in, x.size(), out + copy * x.size());
      return;
    }
    walk(y.shape(), broadcast_strides(x.shape(), y.shape()), [&](Index offset) { *out++ = in[offset]; });
  });
}

void sum(const Tensor& x, std::uint32_t kept, const Tensor& y) {
  dispatch_wide("sum", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    // Every element of x is added to the element of y that its kept axes name. Float64 keeps the sum's rounding below
    // the result's; it is rounded once.
    Sizes strides{};
    Index stride = 1;
    for (int axis = x.rank() - 1; axis >= 0; --axis) {
      if ((kept >> axis & 1u) == 0) continue;
      strides[static_cast<std::size_t>(axis)] = stride;
      stride *= x.dim(axis);
    }
    const Tensor wide = x.dtype() == DType::float64 ? y : Tensor::uninitialized(y.shape(), DType::float64);
    double* const totals = wide.output_data<double>();
    std::fill_n(totals, y.size(), 0.0);
    const T* in = x.data<T>();
    walk(x.shape(), strides, [&](Index offset) { totals[offset] += static_cast<double>(*in++); });
    if (x.dtype() != DType::float64) convert(wide, y);
  });
}

void permute(const Tensor& x, const int* axes, const Tensor& y) {
  dispatch_any("permute", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Sizes own = row_major_strides(x.shape());
    Sizes strides{};
    for (int axis = 0; axis < y.rank(); ++axis) {
      strides[static_cast<std::size_t>(axis)] = own[static_cast<std::size_t>(axes[axis])];
    }
    const T* const in = x.data<T>();
    T* out = y.output_data<T>();
    walk(y.shape(), strides, [&](Index offset) { *out++ = in[offset]; });
  });
}

void copy_block(const Tensor& x, const BlockCopy& block, const Tensor& y) {
  dispatch_any("copy_block", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const in = x.data<T>() + block.from;
    T* const out = y.output_data<T>() + block.to;
    for (Index i = 0; i < block.count; ++i) {
      const T* const source = in + i * block.from_stride;
      T* const target = out + i * block.to_stride;
      if (!block.add) {
        std::copy_n(source, block.length, target);
      } else if constexpr (std::is_arithmetic_v<T>) {
        for (Index j = 0; j < block.length; ++j) target[j] += source[j];
      } else {
        for (Index j = 0; j < block.length; ++j) {
          target[j] = T(static_cast<float>(target[j]) + static_cast<float>(source[j]));
        }
      }
    }
  });
}

}  // namespace jnorm::cpu
