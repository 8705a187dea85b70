// Kernels that move elements, described by strides.

#include <jnorm/core/expect.hpp>
#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/kernels/walk.hpp>
#include <jnorm/core/layout.hpp>

namespace jnorm::cpu {

namespace {

// How `x` lies under the axes of the shape that it broadcasts to: stride 0 where it repeats.
Sizes broadcast_strides(const Shape& x, const Shape& y) {
  const Sizes own = row_major(x).steps;
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

void permute(const Tensor& x, const int* axes, const Tensor& y) {
  dispatch_any("permute", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Sizes own = row_major(x.shape()).steps;
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

void copy_strided(const Shape& sizes, const Tensor& x, const Strides& from, const Tensor& y, const Strides& to) {
  dispatch_any("copy_strided", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const in = x.data<T>() + from.offset;
    T* const out = y.output_data<T>() + to.offset;
    const Index inner = inner_size(sizes);
    const Index in_step = inner_stride(sizes, from.steps), out_step = inner_stride(sizes, to.steps);
    for_each_row<2>(sizes, {from.steps, to.steps}, [&](Index /*row*/, const std::array<Index, 2>& offsets) {
      const T* const in_row = in + offsets[0];
      T* const out_row = out + offsets[1];
      if (in_step == 1 && out_step == 1) {
        std::copy_n(in_row, inner, out_row);
      } else {
        for (Index i = 0; i < inner; ++i) out_row[i * out_step] = in_row[i * in_step];
      }
    });
  });
}

}  // namespace jnorm::cpu
