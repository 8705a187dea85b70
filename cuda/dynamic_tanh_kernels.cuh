#pragma once

// Dynamic tanh over rows. The formulas with their tags stand in core/kernels/dynamic_tanh.cpp.

#include <jnorm/cuda/map.cuh>
#include <jnorm/cuda/norm_config.hpp>
#include <jnorm/cuda/row.cuh>

namespace jnorm::cuda {

// sech^2 isn't taken as 1 - tanh^2, which is 0 in float32 from |a| = 10 on.
template <class W>
JNORM_DEVICE W sech_squared(W a) {
  const W e = std::exp(-2 * std::abs(a)), one_plus_e = 1 + e;
  return 4 * e / (one_plus_e * one_plus_e);
}

// A parameter [H] that repeats along rows, or one number for all if it is absent.
template <class T>
struct RepeatingOr {
  using Element = T;
  Repeating<T> given;
  T absent;

  template <int N>
  JNORM_DEVICE Pack<T, N> load(Index i) const {
    if (given.data != nullptr) return given.template load<N>(i);
    Pack<T, N> pack;
    JNORM_UNROLL
    for (int k = 0; k < N; ++k) pack[k] = absent;
    return pack;
  }
};

// Functions of elements, widened. alpha lies in the device's memory.
template <class T>
struct DynamicTanh {
  const T* alpha;
  JNORM_DEVICE Wide<T> operator()(Wide<T> x, Wide<T> gamma, Wide<T> beta) const {  // [DYT.1]
    return gamma * std::tanh(widen(load_read_only(alpha)) * x) + beta;
  }
};
template <class T>
struct DynamicTanhDx {
  const T* alpha;
  JNORM_DEVICE Wide<T> operator()(Wide<T> dy, Wide<T> x, Wide<T> gamma, Wide<T> before) const {  // [DYT.2]
    const Wide<T> steepness = widen(load_read_only(alpha));
    return gamma * (steepness * sech_squared(steepness * x)) * dy + before;
  }
};

// K copies of R rows of dy, the rows of each in so many parts, each cut into tiles of kColumnThreads packs of columns.
template <class T>
struct DynamicTanhSums {
  const T *dy, *x;  // [K, R, H], [R, H]
  const T *alpha, *gamma;
  Wide<T>* dgamma;  // [K, parts, H] or null
  double* dalpha;   // [K, parts, tiles] or null
  Index rows, length, parts, tiles;
};

// Block (copy * parts + part) * tiles + tile. A thread walks down a pack of columns. [DYT.3]
template <class T, int N>
JNORM_KERNEL(kColumnThreads)
dynamic_tanh_sums(DynamicTanhSums<T> sums) {
  using W = Wide<T>;
  const Index part = block_x() / sums.tiles, copy_rows = part / sums.parts * sums.rows;
  const Index column = (block_x() % sums.tiles * kColumnThreads + thread_index()) * N;
  const bool inside = column < sums.length;
  const W steepness = widen(load_read_only(sums.alpha));
  const Pack<W, N> gamma = load_wide_or<N>(inside ? sums.gamma : nullptr, column, W(1));
  Pack<W, N> dgamma{};
  Sum<double> dalpha;
  for (Index r = part % sums.parts; inside && r < sums.rows; r += sums.parts) {
    const Pack<T, N> x = load_input_pack<N>(sums.x + r * sums.length + column);
    const Pack<T, N> dy = load_input_pack<N>(sums.dy + (copy_rows + r) * sums.length + column);
    W row_sum = W(0);
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) {
      const W element = widen(x[j]), cotangent = widen(dy[j]);
      if (sums.dgamma != nullptr) dgamma[j] += cotangent * std::tanh(steepness * element);
      row_sum += gamma[j] * cotangent * element * sech_squared(steepness * element);
    }
    dalpha.value += row_sum;
  }
  if (inside && sums.dgamma != nullptr) {
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) sums.dgamma[part * sums.length + column + j] = dgamma[j];
  }
  if (sums.dalpha == nullptr) return;
  dalpha = BlockTeam<kColumnThreads>::reduce(dalpha);
  if (thread_index() == 0) sums.dalpha[block_x()] = dalpha.value;
}

}  // namespace jnorm::cuda
