#pragma once

// LayerNorm, RMSNorm and ScaleNorm over rows, backward. The formulas with their tags stand in core/kernels/norm.cpp.
//
// A block walks over the rows of its part of them, holds each in registers, and keeps sums over rows for every column
// in shared memory: x and dy are read once for all three gradients. The sums of all parts are added in a second kernel.
// How many parts there are follows from the shape alone, so that every GPU adds in the same order.

#include <jnorm/cuda/norm_kernels.cuh>

namespace jnorm::cuda {

// K copies of R rows of dy, the rows of each in so many parts. Rows part, part + parts, ... are a part (of several rows
// each where every warp of a block has one).
template <class T>
struct NormBackward {
  const T *dy, *x;        // [K, R, H], [R, H]
  const T *gamma, *gain;  // as in NormForward
  const Wide<T>*mean, *rstd;
  T* dx;              // [K, R, H] or null
  bool add;           // to dx
  Wide<T>* partial;   // [K, parts, 2 or 1, H] or null: sums of dy x_hat, and of dy where rows are centred
  Wide<T>* row_sums;  // [K, R] or null: sums of dy x_hat
  Index rows, length, parts;
  double share;  // as in NormForward
};

// How many sums over rows a column has: dgamma's and dbeta's, or dgamma's.
template <bool Centred>
constexpr int kColumnSums = Centred ? 2 : 1;

// Sums over a row. x_hat's is 0 but for the rounding of the saved mean: it gives the row's shift.
template <class W>
struct BackwardSums {
  W u = W(0), u_x_hat = W(0), x_hat = W(0);
};
template <class W>
JNORM_DEVICE BackwardSums<W> combine(const BackwardSums<W>& a, const BackwardSums<W>& b) {
  return {a.u + b.u, a.u_x_hat + b.u_x_hat, a.x_hat + b.x_hat};
}
template <class W>
JNORM_DEVICE BackwardSums<W> shuffle_xor(const BackwardSums<W>& s, int lanes) {
  return {shuffle_xor(s.u, lanes), shuffle_xor(s.u_x_hat, lanes), shuffle_xor(s.x_hat, lanes)};
}
template <class W>
JNORM_DEVICE BackwardSums<W> shuffle(const BackwardSums<W>& s, int source_lane) {
  return {shuffle(s.u, source_lane), shuffle(s.u_x_hat, source_lane), shuffle(s.x_hat, source_lane)};
}

template <bool Centred, class T>
JNORM_DEVICE RowStatistics<Centred, Wide<T>> saved_statistics(const NormBackward<T>& norm, Index r) {
  RowStatistics<Centred, Wide<T>> row;
  if constexpr (Centred) row.mean = load_read_only(norm.mean + r);
  row.rstd = load_read_only(norm.rstd + r);
  return row;
}

// One pack's part in the sums over its row.
template <bool Centred, int N, class T>
JNORM_DEVICE void add_to(BackwardSums<Wide<T>>& sums, const RowStatistics<Centred, Wide<T>>& row, const Pack<T, N>& x,
                         const Pack<T, N>& dy, const Pack<Wide<T>, N>& gamma) {
  JNORM_UNROLL
  for (int j = 0; j < N; ++j) {
    const Wide<T> u = gamma[j] * widen(dy[j]), x_hat = row.x_hat(widen(x[j]));
    sums = combine(sums, {u, u * x_hat, Centred ? x_hat : Wide<T>(0)});
  }
}

// What backward needs of a row beside its elements.
template <bool Centred, class W>
struct BackwardRow {
  RowStatistics<Centred, W> statistics;
  W mean_u = W(0), mean_u_x_hat = W(0);

  JNORM_DEVICE BackwardRow(const RowStatistics<Centred, W>& saved, const BackwardSums<W>& sums, W share)
      : statistics(saved) {
    W sum_u_x_hat = sums.u_x_hat;
    if constexpr (Centred) {
      statistics.shift = -sums.x_hat * share;
      sum_u_x_hat += statistics.shift * sums.u;
      mean_u = sums.u * share;
    }
    mean_u_x_hat = sum_u_x_hat * share;
  }
  JNORM_DEVICE W dx(W u, W x_hat) const {  // [LN.2] [RMS.2] [SN.2]
    return (u - mean_u - x_hat * mean_u_x_hat) * statistics.rstd;
  }
};

// Sums over rows of a row's columns, in shared memory: [sums][N / M][packs][M], so that what neighbouring threads read
// and write at once lies side by side. Each thread adds to the packs that it holds.
template <class W, int N>
struct ColumnTotals {
  static constexpr int M = N * static_cast<int>(sizeof(W)) > 16 ? 16 / static_cast<int>(sizeof(W)) : N;
  W* memory;
  int packs;

  JNORM_DEVICE W* place(int sum, int pack, int j) const {
    return memory + (sum * (N / M) + j / M) * packs * M + pack * M;
  }
  JNORM_DEVICE void clear(int sum, int pack) const {
    JNORM_UNROLL
    for (int j = 0; j < N; j += M) store_pack(place(sum, pack, j), Pack<W, M>{});
  }
  JNORM_DEVICE void add(int sum, int pack, const Pack<W, N>& terms) const {
    JNORM_UNROLL
    for (int j = 0; j < N; j += M) {
      W* const at = place(sum, pack, j);
      Pack<W, M> total = load_pack<M>(static_cast<const W*>(at));
      JNORM_UNROLL
      for (int i = 0; i < M; ++i) total[i] += terms[j + i];
      store_pack(at, total);
    }
  }
};

// The gradients of one pack of a row.
template <bool Centred, int N, class T>
JNORM_DEVICE void leave_gradients(const NormBackward<T>& norm, const BackwardRow<Centred, Wide<T>>& row,
                                  const Pack<T, N>& x, const Pack<T, N>& dy, const Pack<Wide<T>, N>& gamma,
                                  const ColumnTotals<Wide<T>, N>& totals, int pack, Index i) {
  Pack<Wide<T>, N> dx, dgamma, dbeta;
  JNORM_UNROLL
  for (int j = 0; j < N; ++j) {
    const Wide<T> x_hat = row.statistics.x_hat(widen(x[j]));
    dbeta[j] = widen(dy[j]);
    dgamma[j] = dbeta[j] * x_hat;
    dx[j] = row.dx(gamma[j] * dbeta[j], x_hat);
  }
  if (norm.partial != nullptr) {  // [LN.3] [RMS.3]
    totals.add(0, pack, dgamma);
    if constexpr (Centred) totals.add(1, pack, dbeta);
  }
  if (norm.dx != nullptr) put_pack(norm.dx + i * norm.length + Index{pack} * N, dx, norm.add);
}

// One part's sums, of the totals of all teams of the block.
template <int Sums, int N, class T>
JNORM_DEVICE void leave_partial(const NormBackward<T>& norm, const ColumnTotals<Wide<T>, N>& first, int teams) {
  constexpr int M = ColumnTotals<Wide<T>, N>::M;
  for (int sum = 0; sum < Sums; ++sum) {
    Wide<T>* const to = norm.partial + (block_x() * Sums + sum) * norm.length;
    for (int pack = thread_index(); pack < first.packs; pack += block_size()) {
      JNORM_UNROLL
      for (int j = 0; j < N; j += M) {
        Pack<Wide<T>, M> total = load_pack<M>(static_cast<const Wide<T>*>(first.place(sum, pack, j)));
        for (int team = 1; team < teams; ++team) {
          const Wide<T>* const own = first.place(sum, pack, j) + team * Sums * norm.length;
          const Pack<Wide<T>, M> more = load_pack<M>(own);
          JNORM_UNROLL
          for (int k = 0; k < M; ++k) total[k] += more[k];
        }
        store_pack(to + Index{pack} * N + j, total);
      }
    }
  }
}

// What a kernel's registers have to suffice for: several blocks of warps at once, or one block that takes a row.
template <class Team, int V>
constexpr int kBackwardThreads = Team::kRowsShareBlock ? resident_warp_blocks(V) * Team::kMaxThreads
                                                       : Team::kMaxThreads;

// Block copy * parts + part. gamma is held too where registers allow it; the packs of the next row are loaded where
// those of this one have been used, so that memory is never idle.
template <bool Centred, class Team, class T, int N, int V>
JNORM_KERNEL((kBackwardThreads<Team, V>))
norm_backward_held(NormBackward<T> norm) {
  using W = Wide<T>;
  constexpr int sums_of_column = kColumnSums<Centred>;
  const int packs = static_cast<int>(norm.length / N), teams = Team::per_block();
  HeldRow<Team, T, N, V> x(packs), dy(packs);
  W* const memory = dynamic_smem<W>() + kReductionBytes / sizeof(W);
  const ColumnTotals<W, N> totals{memory + Team::in_block() * sums_of_column * norm.length, packs};
  JNORM_UNROLL
  for (int v = 0; v < V; ++v) {
    if (norm.partial == nullptr || !x.holds(v)) continue;
    for (int sum = 0; sum < sums_of_column; ++sum) totals.clear(sum, x.pack(v));
  }
  const W gain = gain_of(norm.gain);
  const Index copy_rows = block_x() / norm.parts * norm.rows, step = norm.parts * teams;
  Index r = block_x() % norm.parts * teams + Team::in_block();
  RowStatistics<Centred, W> next;
  if (r < norm.rows) {
    next = saved_statistics<Centred>(norm, r);
    x.load(norm.x + r * norm.length);
    dy.load(norm.dy + (copy_rows + r) * norm.length);
  }
  for (; r < norm.rows; r += step) {
    const RowStatistics<Centred, W> saved = next;
    const Index following = r + step < norm.rows ? r + step : r;
    next = saved_statistics<Centred>(norm, following);
    BackwardSums<W> sums;
    JNORM_UNROLL
    for (int v = 0; v < V; ++v) {
      const auto gamma = load_wide_or<N>(norm.gamma, x.column(v), gain);
      if (x.holds(v)) add_to(sums, saved, x[v], dy[v], gamma);
    }
    const BackwardRow<Centred, W> row(saved, Team::reduce(sums), static_cast<W>(norm.share));
    if (norm.row_sums != nullptr && Team::index() == 0) norm.row_sums[copy_rows + r] = row.mean_u_x_hat;
    JNORM_UNROLL
    for (int v = 0; v < V; ++v) {
      const auto gamma = load_wide_or<N>(norm.gamma, x.column(v), gain);
      if (x.holds(v)) leave_gradients(norm, row, x[v], dy[v], gamma, totals, x.pack(v), copy_rows + r);
      x.load(norm.x + following * norm.length, v);
      dy.load(norm.dy + (copy_rows + following) * norm.length, v);
    }
  }
  if (norm.partial == nullptr) return;
  block_barrier();
  leave_partial<sums_of_column>(norm, ColumnTotals<W, N>{memory, packs}, teams);
}

// Rows too long for that, of all copies: dx, and the shift of each row for the columns' kernel.
template <bool Centred, class Team, class T, int N>
JNORM_KERNEL(Team::kMaxThreads)
norm_backward_streamed(NormBackward<T> norm, Wide<T>* shift) {
  using W = Wide<T>;
  using RowChunk = Chunk<Team, T, N>;
  const Index packs = norm.length / N, i = Team::row(), r = i % norm.rows;
  const W gain = gain_of(norm.gain);
  const T *const x = norm.x + r * norm.length, *const dy = norm.dy + i * norm.length;
  const RowStatistics<Centred, W> saved = saved_statistics<Centred>(norm, r);
  BackwardSums<W> sums;
  for_each_chunk<Team, N>(x, packs, Direction::forwards, [&](const RowChunk& x_chunk, Index first) {
    const RowChunk dy_chunk(dy + first, x_chunk.packs);
    x_chunk.for_each_pack([&](int v, Index column) {
      add_to(sums, saved, x_chunk[v], dy_chunk[v], load_wide_or<N>(norm.gamma, first + column, gain));
    });
  });
  const BackwardRow<Centred, W> row(saved, Team::reduce(sums), static_cast<W>(norm.share));
  if (Team::index() == 0) {
    if (norm.row_sums != nullptr) norm.row_sums[i] = row.mean_u_x_hat;
    if (shift != nullptr && i < norm.rows) shift[r] = row.statistics.shift;
  }
  if (norm.dx == nullptr) return;
  for_each_chunk<Team, N>(x, packs, Direction::backwards, [&](const RowChunk& x_chunk, Index first) {
    const RowChunk dy_chunk(dy + first, x_chunk.packs);
    x_chunk.for_each_pack([&](int v, Index column) {
      const auto gamma = load_wide_or<N>(norm.gamma, first + column, gain);
      Pack<W, N> dx;
      JNORM_UNROLL
      for (int j = 0; j < N; ++j) {
        dx[j] = row.dx(gamma[j] * widen(dy_chunk[v][j]), row.statistics.x_hat(widen(x_chunk[v][j])));
      }
      put_pack(norm.dx + i * norm.length + first + column, dx, norm.add);
    });
  });
}

// The columns' sums of streamed rows: a thread for each pack of columns, and for each part of the rows.
template <bool Centred, class T, int N>
JNORM_KERNEL(kColumnThreads)
norm_backward_columns(NormBackward<T> norm, const Wide<T>* shift, Index tiles) {
  using W = Wide<T>;
  const Index part = block_x() / tiles, copy_rows = part / norm.parts * norm.rows;
  const Index column = (block_x() % tiles * kColumnThreads + thread_index()) * N;
  if (column >= norm.length) return;
  Pack<W, N> dgamma{}, dbeta{};
  for (Index r = part % norm.parts; r < norm.rows; r += norm.parts) {
    RowStatistics<Centred, W> row = saved_statistics<Centred>(norm, r);
    if constexpr (Centred) row.shift = shift[r];
    const Pack<T, N> x = load_input_pack<N>(norm.x + r * norm.length + column);
    const Pack<T, N> dy = load_input_pack<N>(norm.dy + (copy_rows + r) * norm.length + column);
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) {
      dgamma[j] += widen(dy[j]) * row.x_hat(widen(x[j]));
      dbeta[j] += widen(dy[j]);
    }
  }
  W* const to = norm.partial + part * kColumnSums<Centred> * norm.length + column;
  JNORM_UNROLL
  for (int j = 0; j < N; ++j) {
    to[j] = dgamma[j];
    if constexpr (Centred) to[norm.length + j] = dbeta[j];
  }
}

}  // namespace jnorm::cuda
