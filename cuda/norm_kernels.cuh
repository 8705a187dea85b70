#pragma once

// LayerNorm, RMSNorm and ScaleNorm over rows, forward. The formulas with their tags stand in core/kernels/norm.cpp.
//
// A row that fits is held in registers and read once: the mean first, then the squares of what is left. Statistics are
// in float32 (float64 of float64). Where a sum of squares leaves that range, in float32 at |x| of 1e19 or, if eps is 0
// too, of 1e-16, the row is read again, scaled by a power of two, in float64: rows of 1e30 are normalized, and the eps
// of other rows stays what it is. What is left undefined is 0/0: a row without variance, or a zero row of RMSNorm,
// gives NaN if eps is 0, while ScaleNorm's convention is 0. |x| has to stay below half of the type's largest value.

#include <limits>

#include <jnorm/cuda/row.cuh>

namespace jnorm::cuda {

template <class T>
struct NormForward {
  const T* x;
  const T *gamma = nullptr, *beta = nullptr;  // [H] or null
  const T* gain = nullptr;                    // ScaleNorm's g, one number, or null
  T* y;
  Wide<T>*mean, *rstd;  // [R]; RMSNorm and ScaleNorm have no mean
  Index rows, length;
  double eps;
  double share;                 // of a square in what the root is taken of: 1/H, or 1 for ScaleNorm
  bool zero_rows_stay = false;  // 1/root of a row whose squares and eps are 0: 0, or else infinity
};

// One row's part in x_hat = (x - mean) rstd + shift. The mean is rounded, which costs a row of 10,000 +- 0.005 in
// float32 the first digit of x_hat; shift is -rstd times the mean of what is left. Without centring, both are 0.
template <bool Centred, class W>
struct RowStatistics {
  W mean = W(0), rstd = W(0), shift = W(0);
  JNORM_DEVICE W x_hat(W x) const {
    if constexpr (Centred) {
      return (x - mean) * rstd + shift;
    } else {
      return x * rstd;
    }
  }
};

// Between these, a variance plus eps computed in W has kept its precision.
template <class W>
constexpr W kLeastSquare = std::numeric_limits<W>::min() / std::numeric_limits<W>::epsilon();
template <class W>
constexpr W kMostSquare = std::numeric_limits<W>::max();

template <class W>
JNORM_DEVICE bool in_range(W square) {  // false for NaN
  return square >= kLeastSquare<W> && square <= kMostSquare<W>;
}

// The statistics of a row with centre `pivot` nearly its mean, whose deviations from it have these sums. False where
// they left W's range.
template <class W, class Sums>
JNORM_DEVICE bool centred_statistics(W pivot, const Sums& deviations, double share, double eps,
                                     RowStatistics<true, W>& row) {
  const W correction = deviations.first * static_cast<W>(share);  // the mean is pivot + correction
  const W square = deviations.second * static_cast<W>(share) - correction * correction + static_cast<W>(eps);
  row.mean = pivot + correction;
  row.rstd = reciprocal_root(square);
  row.shift = ((row.mean - pivot) - correction) * row.rstd;
  return in_range(square);
}

template <class W>
JNORM_DEVICE bool root_statistics(W squares, double share, double eps, RowStatistics<false, W>& row) {
  const W square = squares * static_cast<W>(share) + static_cast<W>(eps);
  row.rstd = reciprocal_root(square);
  return in_range(square);
}

// The statistics again, from memory, in float64 and with the row scaled to about 1.
template <bool Centred, class Team, class T>
JNORM_DEVICE RowStatistics<Centred, Wide<T>> scaled_statistics(const T* x, const NormForward<T>& norm) {
  using W = Wide<T>;
  const auto over_row = [&](auto state, const auto& term) {
    for (Index j = Team::index(); j < norm.length; j += Team::size()) {
      state = combine(state, decltype(state)(term(static_cast<double>(widen(x[j])))));
    }
    return Team::reduce(state);
  };
  const double largest = over_row(Max<double>(), [](double e) { return Max<double>{e < 0 ? -e : e}; }).value;
  constexpr int least = -500, most = 1000;  // so that neither the squares nor eps scale^2 overflow
  const int exponent = ilogb(largest);
  const double scale = ldexp(1.0, exponent < least ? -least : exponent > most ? -most : -exponent);
  double mean = 0;
  if constexpr (Centred) {
    mean = over_row(Sum<double>(), [=](double e) { return Sum<double>{e * scale}; }).value * norm.share;
  }
  const double squares =
      over_row(Sum<double>(), [=](double e) { return Sum<double>{(e * scale - mean) * (e * scale - mean)}; }).value;
  const double square = squares * norm.share + norm.eps * scale * scale;
  const double rstd = square == 0 && norm.zero_rows_stay ? 0.0 : scale * reciprocal_root(square);
  RowStatistics<Centred, W> row;
  row.rstd = static_cast<W>(rstd);
  if constexpr (Centred) {
    row.mean = static_cast<W>(mean / scale);
    row.shift = static_cast<W>((static_cast<double>(row.mean) - mean / scale) * rstd);
  }
  return row;
}

// ScaleNorm's g; 1 if it is absent.
template <class T>
JNORM_DEVICE Wide<T> gain_of(const T* gain) {
  return gain == nullptr ? Wide<T>(1) : widen(*gain);
}

// y of one pack. [LN.1] [RMS.1] [SN.1]
template <bool Centred, int N, class T>
JNORM_DEVICE Pack<T, N> normalized(const NormForward<T>& norm, const RowStatistics<Centred, Wide<T>>& row,
                                   const Pack<T, N>& x, Wide<T> gain, Index column) {
  const Pack<Wide<T>, N> gamma = load_wide_or<N>(norm.gamma, column, gain);
  const Pack<Wide<T>, N> beta = load_wide_or<N>(Centred ? norm.beta : nullptr, column, Wide<T>(0));
  Pack<T, N> pack;
  JNORM_UNROLL
  for (int j = 0; j < N; ++j) pack[j] = narrow<T>(row.x_hat(widen(x[j])) * gamma[j] + beta[j]);
  return pack;
}

template <bool Centred, class Team, class T>
JNORM_DEVICE void save_statistics(const NormForward<T>& norm, Index r, const RowStatistics<Centred, Wide<T>>& row) {
  if (Team::index() != 0) return;
  if constexpr (Centred) norm.mean[r] = row.mean;
  norm.rstd[r] = row.rstd;
}

// A row whose squares leave W's range: few rows, so it takes its time.
template <bool Centred, class Team, class T>
JNORM_DEVICE void normalize_scaled(const NormForward<T>& norm, Index r) {
  const T* const x = norm.x + r * norm.length;
  const auto row = scaled_statistics<Centred, Team>(x, norm);
  const Wide<T> gain = gain_of(norm.gain);
  for (Index j = Team::index(); j < norm.length; j += Team::size()) {
    store_output_pack(norm.y + r * norm.length + j,
                      normalized<Centred, 1>(norm, row, load_input_pack<1>(x + j), gain, j));
  }
  save_statistics<Centred, Team>(norm, r, row);
}

// Rows held in registers, V packs of N elements at most in each thread.
template <bool Centred, class Team, class T, int N, int V>
JNORM_KERNEL(Team::kMaxThreads)
norm_forward_held(NormForward<T> norm) {
  using W = Wide<T>;
  const W gain = gain_of(norm.gain);
  const Index r = Team::row();
  if (r >= norm.rows) return;
  const HeldRow<Team, T, N, V> x(norm.x + r * norm.length, static_cast<int>(norm.length / N));
  RowStatistics<Centred, W> row;
  bool exact = false;
  if constexpr (Centred) {
    const W sum = reduce_held<Sum<W>>(x, [](W e) { return Sum<W>{e}; }).value;
    const W pivot = sum * static_cast<W>(norm.share);
    const auto deviations = reduce_held<SumPair<W>>(x, [=](W e) {
      return SumPair<W>{e - pivot, (e - pivot) * (e - pivot)};
    });
    exact = centred_statistics(pivot, deviations, norm.share, norm.eps, row);
  } else {
    const W squares = reduce_held<Sum<W>>(x, [](W e) { return Sum<W>{e * e}; }).value;
    exact = root_statistics(squares, norm.share, norm.eps, row);
  }
  if (!exact) {
    normalize_scaled<Centred, Team>(norm, r);
    return;
  }
  JNORM_UNROLL
  for (int v = 0; v < V; ++v) {
    const Index column = x.column(v);
    const Pack<T, N> y = normalized(norm, row, x[v], gain, column);
    if (x.holds(v)) store_output_pack(norm.y + r * norm.length + column, y);
  }
  save_statistics<Centred, Team>(norm, r, row);
}

// Count, mean and squares of a thread's part of a streamed row. Each chunk is taken relative to its first element
// there, whose own deviation keeps that from cancelling, and merged in float64.
template <class Team, int N, class T>
JNORM_DEVICE Moments<double> streamed_moments(const T* x, Index packs) {
  using W = Wide<T>;
  Moments<double> moments;
  for_each_chunk<Team, N>(x, packs, Direction::forwards, [&](const Chunk<Team, T, N>& chunk, Index /*first*/) {
    if (!chunk.holds(0)) return;
    const W pivot = widen(chunk[0][0]);
    int count = 0;
    SumPair<W> deviations;
    chunk.for_each_pack([&](int v, Index /*column*/) {
      count += N;
      JNORM_UNROLL
      for (int j = 0; j < N; ++j) {
        const W deviation = widen(chunk[v][j]) - pivot;
        deviations = combine(deviations, {deviation, deviation * deviation});
      }
    });
    const double sum = deviations.first, mean = sum / count;
    moments = combine(moments, {static_cast<double>(count), pivot + mean, deviations.second - mean * sum});
  });
  return moments;
}

template <class Team, int N, class T>
JNORM_DEVICE Sum<Wide<T>> streamed_squares(const T* x, Index packs) {
  using W = Wide<T>;
  Sum<W> squares;
  for_each_chunk<Team, N>(x, packs, Direction::forwards, [&](const Chunk<Team, T, N>& chunk, Index /*first*/) {
    chunk.for_each([&](W e) { squares.value += e * e; });
  });
  return squares;
}

// Rows too long for registers: two passes.
template <bool Centred, class Team, class T, int N>
JNORM_KERNEL(Team::kMaxThreads)
norm_forward_streamed(NormForward<T> norm) {
  using W = Wide<T>;
  const Index packs = norm.length / N;
  const W gain = gain_of(norm.gain);
  const Index r = Team::row();
  const T* const x = norm.x + r * norm.length;
  RowStatistics<Centred, W> row;
  bool exact = false;
  if constexpr (Centred) {
    const Moments<double> moments = Team::reduce(streamed_moments<Team, N>(x, packs));
    const double square = moments.squares * norm.share + norm.eps;
    row.mean = static_cast<W>(moments.mean);
    row.rstd = static_cast<W>(reciprocal_root(square));
    row.shift = static_cast<W>(row.mean - moments.mean) * row.rstd;
    exact = in_range(static_cast<W>(square));
  } else {
    const W squares = Team::reduce(streamed_squares<Team, N>(x, packs)).value;
    exact = root_statistics(squares, norm.share, norm.eps, row);
  }
  if (!exact) {
    normalize_scaled<Centred, Team>(norm, r);
    return;
  }
  T* const y = norm.y + r * norm.length;
  for_each_chunk<Team, N>(x, packs, Direction::backwards, [&](const Chunk<Team, T, N>& chunk, Index first) {
    chunk.for_each_pack([&](int v, Index column) {
      store_output_pack(y + first + column, normalized(norm, row, chunk[v], gain, first + column));
    });
  });
  save_statistics<Centred, Team>(norm, r, row);
}

}  // namespace jnorm::cuda
