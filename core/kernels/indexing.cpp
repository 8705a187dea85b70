// Elements that are chosen by index, and the adjoints, which add.

#include <algorithm>
#include <cmath>
#include <utility>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/kernels/walk.hpp>
#include <jnorm/core/layout.hpp>

namespace jnorm::cpu {

namespace {

// Calls visit(offset in the narrow tensor, offset in the whole) for every element of one copy of the index, in order,
// where `whole` is the shape of the tensor that the index points into.
template <class Visit>
void for_each_gathered(const Shape& whole, int axis, const Tensor& index, const Visit& visit) {
  Sizes strides = row_major(whole).steps;
  const Index step = std::exchange(strides[static_cast<std::size_t>(axis)], 0);
  const std::int32_t* const chosen = index.data<std::int32_t>();
  Index element = 0;
  walk(index.shape(), strides, [&](Index offset) {
    visit(element, offset + chosen[element] * step);
    ++element;
  });
}

// The shape of one copy of x, which may have a leading axis more than the index.
Shape one_copy(const Tensor& x, const Tensor& index) {
  return x.rank() > index.rank() ? x.shape().without_leading() : x.shape();
}

}  // namespace

void index_select(const Tensor& x, int axis, const Tensor& index, const Tensor& y) {
  dispatch_any("index_select", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const AlongAxis from(x.shape(), axis);
    const std::int32_t* const chosen = index.data<std::int32_t>();
    const Index count = index.size();
    parallel_for(from.outer * count, grain_for(from.inner), [&](Index begin, Index end) {
      for (Index slice = begin; slice < end; ++slice) {
        const Index source = slice / count * from.length + chosen[slice % count];
        std::copy_n(x.data<T>() + source * from.inner, from.inner, y.output_data<T>() + slice * from.inner);
      }
    });
  });
}

// Each thread takes whole outer slices and goes through the index in order, so that equal indices add up in the same
// order however many threads there are.
void index_add(const Tensor& x, int axis, const Tensor& index, const Tensor& y) {
  dispatch_wide("index_add", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const AlongAxis to(y.shape(), axis);
    const std::int32_t* const chosen = index.data<std::int32_t>();
    const Index count = index.size();
    std::fill_n(y.output_data<T>(), y.size(), T(0));
    parallel_for(to.outer, grain_for(count * to.inner), [&](Index begin, Index end) {
      for (Index slice = begin * count; slice < end * count; ++slice) {
        const T* const from = x.data<T>() + slice * to.inner;
        T* const sum = y.output_data<T>() + (slice / count * to.length + chosen[slice % count]) * to.inner;
#pragma omp simd
        for (Index i = 0; i < to.inner; ++i) sum[i] += from[i];
      }
    });
  });
}

void gather(const Tensor& x, int axis, const Tensor& index, const Tensor& y) {
  if (index.size() == 0) return;
  dispatch_any("gather", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Shape whole = one_copy(x, index);
    parallel_for(y.size() / index.size(), grain_for(index.size()), [&](Index begin, Index end) {
      for (Index copy = begin; copy < end; ++copy) {
        const T* const in = x.data<T>() + copy * whole.size();
        T* const out = y.output_data<T>() + copy * index.size();
        for_each_gathered(whole, axis, index, [=](Index narrow, Index wide) { out[narrow] = in[wide]; });
      }
    });
  });
}

void scatter_add(const Tensor& x, int axis, const Tensor& index, const Tensor& y) {
  dispatch_wide("scatter_add", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::fill_n(y.output_data<T>(), y.size(), T(0));
    if (index.size() == 0) return;
    const Shape whole = one_copy(y, index);
    parallel_for(x.size() / index.size(), grain_for(index.size()), [&](Index begin, Index end) {
      for (Index copy = begin; copy < end; ++copy) {
        const T* const in = x.data<T>() + copy * index.size();
        T* const out = y.output_data<T>() + copy * whole.size();
        for_each_gathered(whole, axis, index, [=](Index narrow, Index wide) { out[wide] += in[narrow]; });
      }
    });
  });
}

void argmax(const Tensor& x, int axis, const Tensor& y) {
  dispatch_wide("argmax", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const AlongAxis from(x.shape(), axis);
    parallel_for(y.size(), grain_for(from.length), [&](Index begin, Index end) {
      for (Index result = begin; result < end; ++result) {
        const T* const line = x.data<T>() + result / from.inner * from.length * from.inner + result % from.inner;
        Index best = 0;
        for (Index i = 1; i < from.length && !std::isnan(line[best * from.inner]); ++i) {
          if (!(line[i * from.inner] <= line[best * from.inner])) best = i;
        }
        y.output_data<std::int32_t>()[result] = static_cast<std::int32_t>(best);
      }
    });
  });
}

}  // namespace jnorm::cpu
