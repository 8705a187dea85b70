#pragma once

// y[i] = f(a[i], b[i], ...): one kernel for all that is elementwise. f says what is computed, operands say how they lie
// beside y.

#include <algorithm>

#include <jnorm/cuda/divide.cuh>
#include <jnorm/cuda/launch.cuh>
#include <jnorm/cuda/pack.cuh>

namespace jnorm::cuda {

// An operand as long as y, which may be y itself.
template <class T>
struct Whole {
  using Element = T;
  const T* data;

  template <int N>
  JNORM_DEVICE Pack<T, N> load(Index i) const {
    return load_pack<N>(data + i);
  }
};

// Zeros where there is no such tensor.
template <class T>
struct WholeOrZero {
  using Element = T;
  const T* data;

  template <int N>
  JNORM_DEVICE Pack<T, N> load(Index i) const {
    return data != nullptr ? load_pack<N>(data + i) : Pack<T, N>{};
  }
};

// An operand whose first `period` elements repeat along y.
template <class T>
struct Repeating {
  using Element = T;
  const T* data;
  Divisor period;

  template <int N>
  JNORM_DEVICE Pack<T, N> load(Index i) const {
    if (i + N <= period.value()) return load_pack<N>(data + i);
    Index place = period.remainder(i);
    if (period.value() % N == 0) return load_pack<N>(data + place);
    Pack<T, N> pack;
    JNORM_UNROLL
    for (int k = 0; k < N; ++k) {
      pack[k] = data[place];
      if (++place == period.value()) place = 0;
    }
    return pack;
  }
};

template <class T>
Repeating<T> repeating(const Tensor& x) {
  return {input<T>(x), Divisor(std::max<Index>(x.size(), 1))};
}

// How many elements of each tensor a thread takes at once: 16 bytes of the widest.
template <class... T>
constexpr int kMapPack = static_cast<int>(16 / std::max({sizeof(T)...}));

// The first `packs` packs of y, then what is left of its `count` elements. Two packs are loaded before the first is
// stored, since the compiler can't know that y isn't one of the operands.
template <class F, class Y, class... Operand>
JNORM_KERNEL(kElementwiseThreads)
map_kernel(F f, Index count, Index packs, Y* y, Operand... operand) {
  constexpr int N = kMapPack<Y, typename Operand::Element...>;
  const auto load = [&](Index pack) {
    return [&f, ... values = operand.template load<N>(pack * N)]([[maybe_unused]] int k) { return f(values[k]...); };
  };
  const auto store = [&](Index pack, const auto& result) {
    Pack<Y, N> values;
    JNORM_UNROLL
    for (int k = 0; k < N; ++k) values[k] = result(k);
    store_pack<N>(y + pack * N, values);
  };
  const Index thread = block_x() * block_size() + thread_index(), threads = grid_x() * block_size();
  Index pack = thread;
  for (; pack + threads < packs; pack += 2 * threads) {
    const auto first = load(pack), second = load(pack + threads);
    store(pack, first);
    store(pack + threads, second);
  }
  if (pack < packs) store(pack, load(pack));
  for (Index i = packs * N + thread; i < count; i += threads) y[i] = f(operand.template load<1>(i)[0]...);
}

// f computes in wide numbers; y is rounded once.
template <class F>
struct OnWide {
  F f;
  template <class T, class... Others>
  JNORM_DEVICE T operator()(T element, Others... others) const {
    return narrow<T>(f(widen(element), widen(others)...));
  }
};

// Launches map_kernel over all elements of `result`, which y points to. Tensors begin where 16 bytes do.
template <class F, class Y, class... Operand>
void map(const char* operation, const Tensor& result, F f, Y* y, Operand... operand) {
  constexpr int N = kMapPack<Y, typename Operand::Element...>;
  const Index count = result.size();
  Context& context = context_of(result);
  launch(operation, context, elementwise_config(count, 2 * N, context.limits()), map_kernel<F, Y, Operand...>, f, count,
         count / N, y, operand...);
}

}  // namespace jnorm::cuda
