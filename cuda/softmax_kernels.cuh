#pragma once

// Softmax and log-softmax over rows, and their derivatives from the saved output y.
//
//   [SM.1]  softmax:      y = exp(x - max) / sum exp(x - max)
//   [SM.2]                dx = y (dy - sum(dy y))
//   [SM.3]  log_softmax:  y = (x - max) - log sum exp(x - max)      dx = dy - exp(y) sum(dy)
//
// A team of threads, a warp or a block, takes a row. Where the row fits into the team's registers it is read once; a
// longer one is read twice, the second time from its end, which is still in the cache.
//
// -inf is a masked element: its probability is exactly 0. A row of nothing but -inf, and a row that holds +inf or NaN,
// is NaN throughout. So max may pass over NaN: the sum doesn't.

#include <jnorm/cuda/held_row.cuh>

namespace jnorm::cuda {

enum class SoftmaxKind : std::uint8_t { plain, logarithm };

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

// What some packs of dy add to sum(dy y), or to sum(dy).
template <SoftmaxKind kKind, class T, int N, int kPacks>
JNORM_DEVICE Wide<T> softmax_dx_sum(const HeldRow<T, N, kPacks>& dy, const T* y) {
  Wide<T> sum = Wide<T>(0);
  if constexpr (kKind == SoftmaxKind::plain) {
    JNORM_UNROLL
    for (int p = 0; p < kPacks; ++p) {
      if (!dy.inside(p)) continue;
      const Pack<T, N> ys = load_pack<N>(y + dy.offset(p));
      JNORM_UNROLL
      for (int j = 0; j < N; ++j) sum += widen(dy.packs[p][j]) * widen(ys[j]);
    }
  } else {
    dy.each([&](T value) { sum += widen(value); });
  }
  return sum;
}

// dx of one row, from that sum.
template <SoftmaxKind kKind, class T>
struct SoftmaxGradient {
  Wide<T> sum;
  JNORM_DEVICE Wide<T> operator()(Wide<T> dy, Wide<T> y) const {
    if constexpr (kKind == SoftmaxKind::plain) {
      return y * (dy - sum);  // [SM.2]
    } else {
      return dy - exp_for<T>(y) * sum;  // [SM.3]
    }
  }
};

// Rows of length <= team * kPacks * N.
template <SoftmaxKind kKind, class T, int N, int kPacks>
JNORM_KERNEL(kMaxThreads)
softmax_held(const T* x, Index rows, Index length, int threads, T* y) {
  using A = Wide<T>;
  const RowTeam team(threads);
  const Index row = team.row();
  if (row >= rows) return;
  const HeldRow<T, N, kPacks> held(team, x + row * length, 0, length, narrow<T>(-A(INFINITY)));
  Max<A> largest;
  held.each([&](T value) { largest.value = fmax(largest.value, widen(value)); });
  largest = team.reduce(largest);
  Sum<A> sum;
  held.each([&](T value) { sum.value += exp_for<T>(widen(value) - largest.value); });
  sum = team.reduce(sum);
  const SoftmaxOutput<kKind, T> output(largest.value, sum.value);
  JNORM_UNROLL
  for (int p = 0; p < kPacks; ++p) {
    if (held.inside(p)) store_output_pack<N>(y + row * length + held.offset(p), output(held.packs[p]));
  }
}

template <SoftmaxKind kKind, class T, int N>
JNORM_KERNEL(kMaxThreads)
softmax_streamed(const T* x, Index rows, Index length, int threads, T* y) {
  using A = Wide<T>;
  const RowTeam team(threads);
  const Index row = team.row();
  if (row >= rows) return;
  const StreamedRow<T, N> stream(team, x + row * length, length);
  const OnlineSoftmax<A> state = team_softmax(stream);
  const SoftmaxOutput<kKind, T> output(state.largest, state.sum);
  for (Index chunk = stream.chunks() - 1; chunk >= 0; --chunk) {
    const auto held = stream.chunk(chunk, narrow<T>(A(0)));
    JNORM_UNROLL
    for (int p = 0; p < stream.kPacks; ++p) {
      if (held.inside(p)) store_output_pack<N>(y + row * length + held.offset(p), output(held.packs[p]));
    }
  }
}

// dy has some copies of y's rows. Its row is held in registers. Softmax, which needs y twice, keeps it in shared
// memory, where each thread finds again what it put there.
template <SoftmaxKind kKind, class T, int N, int kPacks>
JNORM_KERNEL(kMaxThreads)
softmax_dx_held(const T* dy, Index all_rows, const T* y, Index rows, Index length, int threads, T* dx, bool add) {
  const RowTeam team(threads);
  const Index row = team.row();
  if (row >= all_rows) return;
  const T* y_row = y + row % rows * length;
  if constexpr (kKind == SoftmaxKind::plain) {
    T* const kept = team.kept<T>(length);
    HeldRow<T, N, kPacks>(team, y_row, 0, length, T(0.0F)).keep(kept);
    y_row = kept;
  }
  const HeldRow<T, N, kPacks> held(team, dy + row * length, 0, length, T(0.0F));
  const Sum<Wide<T>> sum = team.reduce(Sum<Wide<T>>{softmax_dx_sum<kKind>(held, y_row)});
  put_pairs(held, y_row, SoftmaxGradient<kKind, T>{sum.value}, dx + row * length, add);
}

template <SoftmaxKind kKind, class T, int N>
JNORM_KERNEL(kMaxThreads)
softmax_dx_streamed(const T* dy, Index all_rows, const T* y, Index rows, Index length, int threads, T* dx, bool add) {
  const RowTeam team(threads);
  const Index row = team.row();
  if (row >= all_rows) return;
  const T* const y_row = y + row % rows * length;
  const StreamedRow<T, N> stream(team, dy + row * length, length);
  Sum<Wide<T>> sum;
  for (Index i = 0; i < stream.chunks(); ++i) {
    sum.value += softmax_dx_sum<kKind>(stream.chunk(i, T(0.0F)), y_row);
  }
  const SoftmaxGradient<kKind, T> gradient{team.reduce(sum).value};
  for (Index i = stream.chunks() - 1; i >= 0; --i) {
    put_pairs(stream.chunk(i, T(0.0F)), y_row, gradient, dx + row * length, add);
  }
}

}  // namespace jnorm::cuda
