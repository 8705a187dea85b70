#pragma once

// Elements that are chosen by index, and the adjoints. What an index outside of its range chooses is 0, and is added to
// nothing. Each sum is one thread's, in the index's order: no atomics, so results have the same bits in each run.

#include <jnorm/cuda/shape_kernels.cuh>

namespace jnorm::cuda {

JNORM_DEVICE bool in_range(Index i, Index length) { return i >= 0 && i < length; }

// y [outer, count, inner] from x [outer, length, inner]: y[o, j] = x[o, index[j]], in units of several elements.
template <class Unit>
JNORM_KERNEL(kElementwiseThreads)
index_select_kernel(Index size, Divisor count, Index length, Divisor inner, const Unit* x, const std::int32_t* index,
                    Unit* y) {
  for (Index i = block_x() * block_size() + thread_index(); i < size; i += grid_x() * block_size()) {
    const Index slice = inner.quotient(i), place = i - slice * inner.value();
    const Index o = count.quotient(slice), chosen = index[slice - o * count.value()];
    const bool exists = in_range(chosen, length);
    const Index from = (o * length + (exists ? chosen : 0)) * inner.value() + place;
    store_aligned<Unit>(y + i, exists ? load_aligned<Unit>(x + from) : Unit{});
  }
}

// The positions of each index as a chain, in order: first[t] is where `index` says t for the first time, and next[j]
// where it says index[j] again. Both hold -1 before.
JNORM_KERNEL(kElementwiseThreads)
chain_kernel(Index count, Index length, const std::int32_t* index, std::int32_t* first, std::int32_t* next) {
  for (Index j = block_x() * block_size() + thread_index(); j < count; j += grid_x() * block_size()) {
    const std::int32_t target = index[j];
    if (!in_range(target, length)) continue;
    Index before = j - 1;
    while (before >= 0 && index[before] != target) --before;
    std::int32_t& link = before >= 0 ? next[before] : first[target];
    link = static_cast<std::int32_t>(j);
  }
}

// y [outer, length, inner] from x [outer, count, inner]: y[o, t] is the sum of x[o, j] along t's chain.
template <class T>
JNORM_KERNEL(kElementwiseThreads)
index_add_kernel(Index size, Index count, Divisor length, Divisor inner, const T* x, const std::int32_t* first,
                 const std::int32_t* next, T* y) {
  for (Index i = block_x() * block_size() + thread_index(); i < size; i += grid_x() * block_size()) {
    const Index slice = inner.quotient(i), place = i - slice * inner.value();
    const Index o = length.quotient(slice), target = slice - o * length.value();
    Wide<T> sum(0);
    for (Index j = first[target]; j >= 0; j = next[j]) sum += widen(x[(o * count + j) * inner.value() + place]);
    y[i] = narrow<T>(sum);
  }
}

// Along one axis of an index. `walk` goes over a copy of the result: from the index's element (the first along the
// axis) or that of the tensor which it points into.
struct AlongIndex {
  DeviceWalk walk;
  Divisor copy;              // elements of a copy of the result that are walked over
  Index from_copy, to_copy;  // how far copies are apart
};

// y[..., j, ...] = x[..., index[..., j, ...], ...]; `step` is that of x along the axis, of `length` elements.
template <class Raw>
JNORM_KERNEL(kElementwiseThreads)
gather_kernel(AlongIndex along, Index size, Index length, Index step, const Raw* x, const std::int32_t* index, Raw* y) {
  for (Index i = block_x() * block_size() + thread_index(); i < size; i += grid_x() * block_size()) {
    const Index copy = along.copy.quotient(i), element = i - copy * along.copy.value();
    const Index chosen = index[element];
    const Index from = copy * along.from_copy + offsets_of(along.walk, element).from + chosen * step;
    y[i] = in_range(chosen, length) ? x[from] : Raw{};
  }
}

// y[..., t, ...] is the sum of x[..., j, ...] where index[..., j, ...] is t; `step` is that of index and x along the
// axis, where they have `count` elements, and y `length`; `inner` counts the elements of the axes after it.
template <class T>
JNORM_KERNEL(kElementwiseThreads)
scatter_add_kernel(AlongIndex along, Index size, Index count, Index step, Divisor length, Divisor inner, const T* x,
                   const std::int32_t* index, T* y) {
  for (Index i = block_x() * block_size() + thread_index(); i < size; i += grid_x() * block_size()) {
    const Index copy = along.copy.quotient(i), element = i - copy * along.copy.value();
    const Index target = length.remainder(inner.quotient(element));
    const Offsets at = offsets_of(along.walk, element);
    Wide<T> sum(0);
    for (Index j = 0; j < count; ++j) {
      const Index from = at.from + j * step;
      if (index[from] == target) sum += widen(x[copy * along.from_copy + from]);
    }
    y[copy * along.to_copy + at.to] = narrow<T>(sum);
  }
}

}  // namespace jnorm::cuda
