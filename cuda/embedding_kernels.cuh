#pragma once

// Rows of a table by token, and the table's gradient: of each token the sum of the rows of dy that hold it, in a fixed
// order. The positions are put in the order of their tokens, equal ones as they come; then each run of equal tokens is
// summed by one block. A position's rank is the number of positions that come before it, which is counted: R^2
// comparisons of integers, few beside the model's work on R tokens.
//
// Tokens out of range, which callers have ruled out, read nothing: their rows are NaN and take no part in gradients.

#include <jnorm/cuda/config.hpp>
#include <jnorm/cuda/pack.cuh>
#include <jnorm/cuda/reduce.cuh>

namespace jnorm::cuda {

// A warp for each row.
template <class T, int N>
JNORM_KERNEL(kWarpTeamThreads)
embedding_rows(const T* table, Index table_rows, const std::int32_t* tokens, Index rows, Index length, T* y) {
  const Index row = block_x() * (block_size() / kWarpSize) + warp_index();
  if (row >= rows) return;
  const std::int32_t token = tokens[row];
  const bool known = token >= 0 && token < table_rows;
  for (Index c = Index{lane_index()} * N; c < length; c += kWarpSize * N) {
    Pack<T, N> values;
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) values[j] = narrow<T>(Wide<T>(NAN));
    if (known) values = load_pack<N>(table + token * length + c);
    store_output_pack<N>(y + row * length + c, values);
  }
}

// Where a token goes in the order; those out of range come last.
JNORM_DEVICE std::int32_t order_key(std::int32_t token, Index table_rows) {
  return token >= 0 && token < table_rows ? token : static_cast<std::int32_t>(table_rows);
}

// Adds to each position's rank the number of positions of one chunk that come before it. Block (x, y) takes the
// positions of block x and the chunk y.
JNORM_KERNEL(kRankThreads) rank_positions(const std::int32_t* tokens, Index table_rows, int count, int* ranks) {
  auto* const chunk = dynamic_smem<std::int32_t>();
  const int begin = static_cast<int>(block_y()) * kRankChunk;
  const int size = count - begin < kRankChunk ? count - begin : kRankChunk;
  for (int j = thread_index(); j < size; j += block_size()) chunk[j] = order_key(tokens[begin + j], table_rows);
  block_barrier();
  const int position = static_cast<int>(block_x()) * block_size() + thread_index();
  if (position >= count) return;
  const std::int32_t key = order_key(tokens[position], table_rows);
  int before = 0;
  for (int j = 0; j < size; ++j) before += chunk[j] < key + (begin + j < position ? 1 : 0) ? 1 : 0;
  atomic_add(ranks + position, before);  // of integers: the order doesn't matter
}

JNORM_KERNEL(kRankThreads) order_positions(const int* ranks, int count, int* order) {
  const Index position = block_x() * block_size() + thread_index();
  if (position < count) order[ranks[position]] = static_cast<int>(position);
}

// The sum of one pack of dy's rows at up to 32 positions of a run: those that the lanes hold where `mask` has a bit.
template <int N, class T>
JNORM_DEVICE void add_rows(const T* column, Index length, int position, unsigned mask, bool inside, Wide<T> (&sum)[N]) {
  constexpr int kAtOnce = 4;
  for (int i = 0; i < kWarpSize && (mask >> i & 1U) != 0; i += kAtOnce) {
    Pack<T, N> rows[kAtOnce];
    JNORM_UNROLL
    for (int k = 0; k < kAtOnce; ++k) {
      const Index row = shuffle(position, i + k);
      rows[k] = inside && (mask >> (i + k) & 1U) != 0 ? load_pack<N>(column + row * length) : Pack<T, N>{};
    }
    JNORM_UNROLL
    for (int k = 0; k < kAtOnce; ++k) {
      JNORM_UNROLL
      for (int j = 0; j < N; ++j) sum[j] += widen(rows[k][j]);
    }
  }
}

// A strip of columns of one copy of dtable, for the token whose run begins at place block_x() of the order.
template <class T, int N>
JNORM_KERNEL(kRunThreads)
sum_runs(const T* dy, Index length, const std::int32_t* tokens, Index table_rows, const int* order, int count,
         Index strips, Index all_strips, T* dtable, bool add) {
  using A = Wide<T>;
  constexpr int kGroups = kRunThreads / kWarpSize;
  const Index first = block_x();
  const std::int32_t token = tokens[order[first]];
  if (first > 0 && tokens[order[first - 1]] == token) return;  // within a run
  if (token < 0 || token >= table_rows) return;
  auto* const partial = dynamic_smem<A>();
  for (Index strip = block_y(); strip < all_strips; strip += grid_y()) {
    const Index copy = strip / strips, c = (strip % strips * kWarpSize + lane_index()) * N;
    const bool inside = c < length;
    A sum[N] = {};
    // Each warp sums 32 rows of the run, then those 32 kGroups further on.
    for (Index begin = first + thread_index() - lane_index(); begin < count; begin += kRunThreads) {
      const Index place = begin + lane_index();
      const int position = place < count ? order[place] : 0;
      const unsigned mask = ballot(place < count && tokens[position] == token);
      if (mask == 0) break;
      add_rows<N>(dy + copy * count * length + c, length, position, mask, inside, sum);
    }
    block_barrier();  // the strip before may still be read
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) partial[(warp_index() * N + j) * kWarpSize + lane_index()] = sum[j];
    block_barrier();
    if (warp_index() > 0 || !inside) continue;
    T* const to = dtable + (copy * table_rows + token) * length + c;
    Pack<T, N> total{};
    if (add) total = load_pack<N>(to);
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) {
      A value = add ? widen(total[j]) : A(0);
      for (int group = 0; group < kGroups; ++group) value += partial[(group * N + j) * kWarpSize + lane_index()];
      total[j] = narrow<T>(value);
    }
    store_output_pack<N>(to, total);
  }
}

}  // namespace jnorm::cuda
