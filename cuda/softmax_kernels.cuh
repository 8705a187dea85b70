#pragma once

// Softmax and log-softmax over rows, and their derivatives from the saved output y.
//
//   [SM.1]  softmax:      y = exp(x - max) / sum exp(x - max)
//   [SM.2]                dx = y (dy - sum(dy y))
//   [SM.3]  log_softmax:  y = (x - max) - log sum exp(x - max)      dx = dy - exp(y) sum(dy)
//
// -inf is a masked element: its probability is exactly 0. A row of nothing but -inf, and a row that holds +inf or NaN,
// is NaN throughout. So max may pass over NaN: the sum doesn't.

#include <jnorm/cuda/row.cuh>

namespace jnorm::cuda {

enum class SoftmaxKind : std::uint8_t { plain, logarithm };

// exp as exact as an element of type T shows it.
template <class T>
JNORM_DEVICE Wide<T> exp_for(Wide<T> x) {
  if constexpr (sizeof(T) == 2) {
    return fast_exp(x);
  } else {
    return exp(x);
  }
}

// y of one row, from its largest element and its sum of exp(x - largest).
template <SoftmaxKind kKind, class T>
struct SoftmaxOutput {
  static constexpr bool kPlain = kKind == SoftmaxKind::plain;
  Wide<T> largest, by_sum;
  JNORM_DEVICE SoftmaxOutput(Wide<T> row_largest, Wide<T> sum) : largest(row_largest) {
    if constexpr (kPlain) {
      by_sum = Wide<T>(1) / sum;
    } else {
      by_sum = log(sum);
    }
  }
  template <int N>
  JNORM_DEVICE Pack<T, N> operator()(const Pack<T, N>& x) const {
    Pack<T, N> y;
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) {
      const Wide<T> below = widen(x[j]) - largest;
      if constexpr (kPlain) {
        y[j] = narrow<T>(exp_for<T>(below) * by_sum);  // [SM.1]
      } else {
        y[j] = narrow<T>(below - by_sum);  // [SM.3]
      }
    }
    return y;
  }
};

// What this thread's packs of dy add to sum(dy y), or to sum(dy).
template <SoftmaxKind kKind, class Team, class T, int N, int V>
JNORM_DEVICE Wide<T> softmax_dx_sum(const HeldRow<Team, T, N, V>& dy, const HeldRow<Team, T, N, V>& y) {
  Wide<T> sum = Wide<T>(0);
  dy.for_each_pack([&](int v, Index /*column*/) {
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) {
      sum += kKind == SoftmaxKind::plain ? widen(dy[v][j]) * widen(y[v][j]) : widen(dy[v][j]);
    }
  });
  return sum;
}

// dx of a row or a chunk, from that sum over all of the row.
template <SoftmaxKind kKind, class Team, class T, int N, int V>
JNORM_DEVICE void leave_softmax_dx(const HeldRow<Team, T, N, V>& dy, const HeldRow<Team, T, N, V>& y, Wide<T> sum,
                                   T* dx, bool add) {
  dy.for_each_pack([&](int v, Index column) {
    Pack<Wide<T>, N> values;
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) {
      const Wide<T> dy_j = widen(dy[v][j]), y_j = widen(y[v][j]);
      if constexpr (kKind == SoftmaxKind::plain) {
        values[j] = y_j * (dy_j - sum);  // [SM.2]
      } else {
        values[j] = dy_j - exp_for<T>(y_j) * sum;  // [SM.3]
      }
    }
    put_pack(dx + column, values, add);
  });
}

template <SoftmaxKind kKind, class Team, class T, int N, int V>
JNORM_KERNEL(Team::kMaxThreads)
softmax_held(const T* x, Index rows, Index length, T* y) {
  using A = Wide<T>;
  const Index r = Team::row();
  if (r >= rows) return;
  const HeldRow<Team, T, N, V> row(x + r * length, static_cast<int>(length / N));
  Max<A> largest;
  row.for_each([&](A e) { largest.value = fmax(largest.value, e); });
  largest = Team::reduce(largest);
  const A sum = reduce_held<Sum<A>>(row, [&](A e) { return Sum<A>{exp_for<T>(e - largest.value)}; }).value;
  const SoftmaxOutput<kKind, T> output(largest.value, sum);
  row.for_each_pack([&](int v, Index column) { store_output_pack(y + r * length + column, output(row[v])); });
}

// The largest element of a row and its sum of exp(x - largest), 0 where all are -inf. NaN is in the sum alone.
template <class Team, int N, class T>
JNORM_DEVICE OnlineSoftmax<Wide<T>> streamed_softmax(const T* x, Index packs) {
  using A = Wide<T>;
  OnlineSoftmax<A> mine;
  for_each_chunk<Team, N>(x, packs, Direction::forwards, [&](const Chunk<Team, T, N>& chunk, Index /*first*/) {
    A largest = mine.largest;
    chunk.for_each([&](A e) { largest = fmax(largest, e); });
    const A shift = largest == -A(INFINITY) ? A(0) : largest;
    mine.sum *= exp_for<T>(mine.largest - shift);
    chunk.for_each([&](A e) { mine.sum += exp_for<T>(e - shift); });
    mine.largest = largest;
  });
  const A largest = Team::reduce(Max<A>{mine.largest}).value;
  const A share =
      mine.largest == -A(INFINITY) ? A(1) : exp_for<T>(mine.largest - largest);  // of a sum that is 0 or NaN
  return {largest, Team::reduce(Sum<A>{mine.sum * share}).value};
}

template <SoftmaxKind kKind, class Team, class T, int N>
JNORM_KERNEL(Team::kMaxThreads)
softmax_streamed(const T* x, Index rows, Index length, T* y) {
  const Index r = Team::row();
  if (r >= rows) return;
  const T* const x_row = x + r * length;
  T* const y_row = y + r * length;
  const OnlineSoftmax<Wide<T>> state = streamed_softmax<Team, N>(x_row, length / N);
  const SoftmaxOutput<kKind, T> output(state.largest, state.sum);
  for_each_chunk<Team, N>(x_row, length / N, Direction::backwards, [&](const Chunk<Team, T, N>& chunk, Index first) {
    chunk.for_each_pack([&](int v, Index column) { store_output_pack(y_row + first + column, output(chunk[v])); });
  });
}

// dy and dx have some copies of y's rows.
template <SoftmaxKind kKind, class Team, class T, int N, int V>
JNORM_KERNEL(Team::kMaxThreads)
softmax_dx_held(const T* dy, Index all_rows, const T* y, Index rows, Index length, T* dx, bool add) {
  const Index r = Team::row();
  if (r >= all_rows) return;
  const int packs = static_cast<int>(length / N);
  const HeldRow<Team, T, N, V> y_row(y + r % rows * length, packs), dy_row(dy + r * length, packs);
  const Sum<Wide<T>> sum = Team::reduce(Sum<Wide<T>>{softmax_dx_sum<kKind>(dy_row, y_row)});
  leave_softmax_dx<kKind>(dy_row, y_row, sum.value, dx + r * length, add);
}

// Registers have to suffice for two blocks side by side.
template <SoftmaxKind kKind, class Team, class T, int N>
JNORM_KERNEL(2 * Team::kMaxThreads)
softmax_dx_streamed(const T* dy, Index all_rows, const T* y, Index rows, Index length, T* dx, bool add) {
  using RowChunk = Chunk<Team, T, N>;
  const Index r = Team::row();
  if (r >= all_rows) return;
  const T *const dy_row = dy + r * length, *const y_row = y + r % rows * length;
  Sum<Wide<T>> sum;
  for_each_chunk<Team, N>(dy_row, length / N, Direction::forwards, [&](const RowChunk& dy_chunk, Index first) {
    sum.value += softmax_dx_sum<kKind>(dy_chunk, RowChunk(y_row + first, dy_chunk.packs));
  });
  sum = Team::reduce(sum);
  for_each_chunk<Team, N>(dy_row, length / N, Direction::backwards, [&](const RowChunk& dy_chunk, Index first) {
    const RowChunk y_chunk(y_row + first, dy_chunk.packs);
    leave_softmax_dx<kKind>(dy_chunk, y_chunk, sum.value, dx + r * length + first, add);
  });
}

}  // namespace jnorm::cuda
