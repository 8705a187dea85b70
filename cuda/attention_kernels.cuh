#pragma once

// Multi-head attention in tiles, so that no matrix of scores is ever stored. With S = scale q k^T for the pairs of a
// query and a key that may meet:
//
//   [ATT.1]  P = softmax of S's rows        y = P v
//   [ATT.2]  dv = P^T dy     dP = dy v^T     dS = P * (dP - rowsum(P * dP))
//   [ATT.3]  dq = scale dS k                 dk = scale dS^T q
//
// A block holds a tile of kTileRows rows of one head, queries or keys, and what it sums for them, in registers. Tiles
// of the other kind pass by. Forward, a row's largest score and sum of exp are corrected with each tile. Backward, P is
// exp(S - lse), and rowsum(P * dP) = rowsum(dy * y) = D is computed beforehand. Nothing is summed across blocks, so
// every sum has its order.
//
// A head of more columns than a tile has is taken in chunks of columns: each block computes S and dP over all of them,
// and results for one.
//
// Masks select. A masked pair's P and dS are exactly 0. Products would multiply these zeros by other rows, and a NaN
// there would pass; so where a tile that passes by isn't finite, its sums leave masked pairs out.

#include <jnorm/cuda/config.hpp>
#include <jnorm/cuda/pack.cuh>
#include <jnorm/cuda/reduce.cuh>

namespace jnorm::cuda {

struct AttentionSizes {
  Index batches, heads, key_heads, queries, keys;
  Index columns, value_columns;  // of a head, in q and k and in v and y
  bool causal;
  const std::int32_t* mask;                 // or null
  Index mask_batch, mask_head, mask_query;  // how far the mask steps: 0 where an axis of size 1 repeats

  JNORM_HOST_DEVICE Index group() const { return heads / key_heads; }  // query heads that read one head of the keys
  // Query i sees the keys up to i + lead.
  JNORM_HOST_DEVICE Index lead() const { return causal ? keys - queries : keys; }
};

JNORM_DEVICE Index smaller(Index a, Index b) { return a < b ? a : b; }
JNORM_DEVICE Index not_negative(Index a) { return a > 0 ? a : 0; }
JNORM_DEVICE int small_number(Index a) { return static_cast<int>(a > 65536 ? 65536 : a < -65536 ? -65536 : a); }

// Which queries of a tile see which keys of another, both counted from the tile's first.
struct TilePairs {
  int queries, keys, diagonal;  // those that there are; query i sees keys up to i + diagonal
  const std::int32_t* mask;     // or null
  Index mask_query;

  JNORM_DEVICE TilePairs(const AttentionSizes& sizes, Index batch, Index head, Index first_query, Index first_key)
      : queries(small_number(sizes.queries - first_query)),
        keys(small_number(sizes.keys - first_key)),
        diagonal(small_number(first_query + sizes.lead() - first_key)),
        mask(sizes.mask == nullptr ? nullptr
                                   : sizes.mask + batch * sizes.mask_batch + head * sizes.mask_head +
                                         first_query * sizes.mask_query + first_key),
        mask_query(sizes.mask_query) {}
  JNORM_DEVICE bool meet(int query, int key) const {
    return query < queries && key < keys && key <= query + diagonal &&
           (mask == nullptr || mask[query * mask_query + key] != 0);
  }
  // Whether all of so many meet, as far as it can be told without the mask's elements.
  JNORM_DEVICE bool all_meet(int query_count, int key_count) const {
    return mask == nullptr && query_count <= queries && key_count <= keys && key_count - 1 <= diagonal;
  }
};

// Some columns of a head, in rows of a tensor [batch, rows, heads * columns].
template <class T>
struct HeadSlice {
  T* data;
  Index width, rows, columns;  // columns that are left from `data` on

  JNORM_DEVICE HeadSlice(T* tensor, Index batch, Index row_count, Index head, Index heads, Index head_columns,
                         Index first_column)
      : data(tensor + (batch * row_count * heads + head) * head_columns + first_column),
        width(heads * head_columns),
        rows(row_count),
        columns(head_columns - first_column) {}
};

// How the threads of a block share a tile: 16 x 8 of them, each with 4 rows, 16 apart, and every 8th column. A row's 8
// threads are neighbours in a warp.
constexpr int kThreadRows = kAttentionThreads / 8;
constexpr int kThreadColumns = 8;
constexpr int kRowsOfThread = kTileRows / kThreadRows;
JNORM_DEVICE int row_of_thread(int i) { return thread_index() / kThreadColumns + kThreadRows * i; }
JNORM_DEVICE int column_of_thread(int j) { return thread_index() % kThreadColumns + kThreadColumns * j; }

// 16 bytes of wide numbers.
template <class A>
constexpr int kLane = static_cast<int>(16 / sizeof(A));

// A matrix in shared memory. Its rows are a few elements longer than they need to be, so that equal columns of
// neighbouring rows lie in different banks.
template <class A, int kColumns, int kPadding>
struct Tile {
  static constexpr int kStride = kColumns + kPadding;
  A* data;
  JNORM_DEVICE A* row(int r) const { return data + r * kStride; }
};
template <class A, int kColumns>
using RowTile = Tile<A, kColumns, kRowPadding<A>>;
template <class A, int kColumns>
using WeightTile = Tile<A, kColumns, kWeightPadding<A>>;

// Fills kRows rows of a tile from the rows of a slice from `first` on, widened; 0 where the slice ends. Returns whether
// all that this thread brought is finite.
template <int kRows, int kColumns, int N, class T>
JNORM_DEVICE bool load_rows(const HeadSlice<const T>& slice, Index first, const RowTile<Wide<T>, kColumns>& tile) {
  using A = Wide<T>;
  constexpr int kPacks = kColumns / N;
  const int rows = static_cast<int>(smaller(kRows, slice.rows - first));
  const int columns = static_cast<int>(smaller(kColumns, slice.columns));
  const T* const from = slice.data + first * slice.width;
  A finite = A(0);  // 0, or NaN
  JNORM_UNROLL_BY(4)
  for (int i = 0; i < kRows * kPacks / kAttentionThreads; ++i) {
    const int place = i * kAttentionThreads + thread_index();
    const int row = place / kPacks, column = place % kPacks * N;
    Pack<T, N> pack{};
    if (row < rows && column < columns) pack = load_pack<N>(from + row * slice.width + column);
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) {
      const A value = widen(pack[j]);
      finite += value * A(0);
      tile.row(row)[column + j] = value;
    }
  }
  return finite == A(0);
}
template <int kRows, int kColumns, class T>
JNORM_DEVICE bool load_tile(const HeadSlice<const T>& slice, Index first, bool packs,
                            const RowTile<Wide<T>, kColumns>& tile) {
  return packs ? load_rows<kRows, kColumns, kPackSize<T>>(slice, first, tile)
               : load_rows<kRows, kColumns, 1>(slice, first, tile);
}

// sums[i][j] += the product of a's row and b's row of this thread's place (i, j).
template <int kColumns, int kAcross, class A>
JNORM_DEVICE void add_row_products(const RowTile<A, kColumns>& a, const RowTile<A, kColumns>& b,
                                   A (&sums)[kRowsOfThread][kAcross]) {
  constexpr int N = kLane<A>;
  JNORM_UNROLL_BY(1)
  for (int c = 0; c < kColumns; c += N) {
    Pack<A, N> left[kRowsOfThread], right[kAcross];
    JNORM_UNROLL
    for (int i = 0; i < kRowsOfThread; ++i) left[i] = load_pack<N>(a.row(row_of_thread(i)) + c);
    JNORM_UNROLL
    for (int j = 0; j < kAcross; ++j) right[j] = load_pack<N>(b.row(column_of_thread(j)) + c);
    JNORM_UNROLL
    for (int k = 0; k < N; ++k) {
      JNORM_UNROLL
      for (int i = 0; i < kRowsOfThread; ++i) {
        JNORM_UNROLL
        for (int j = 0; j < kAcross; ++j) sums[i][j] += left[i][k] * right[j][k];
      }
    }
  }
}

// One row of results for each of this thread's rows: pack j of them is columns N * column_of_thread(j) on.
template <class A, int kColumns>
struct RowSums {
  static constexpr int N = kLane<A>;
  static constexpr int kPacks = kColumns / (N * kThreadColumns);
  A values[kRowsOfThread][kPacks * N] = {};
};

// sums += weights b, over kInner rows of b.
template <int kInner, int kColumns, class A>
JNORM_DEVICE void add_weighted_rows(const WeightTile<A, kInner>& weights, const RowTile<A, kColumns>& b,
                                    RowSums<A, kColumns>& sums) {
  constexpr int N = kLane<A>;
  JNORM_UNROLL_BY(1)
  for (int r = 0; r < kInner; r += N) {
    Pack<A, N> left[kRowsOfThread];
    JNORM_UNROLL
    for (int i = 0; i < kRowsOfThread; ++i) left[i] = load_pack<N>(weights.row(row_of_thread(i)) + r);
    JNORM_UNROLL
    for (int k = 0; k < N; ++k) {
      JNORM_UNROLL
      for (int j = 0; j < sums.kPacks; ++j) {
        const Pack<A, N> right = load_pack<N>(b.row(r + k) + N * column_of_thread(j));
        JNORM_UNROLL
        for (int i = 0; i < kRowsOfThread; ++i) {
          JNORM_UNROLL
          for (int u = 0; u < N; ++u) sums.values[i][j * N + u] += left[i][k] * right[u];
        }
      }
    }
  }
}

// The same over the pairs for which meet(row, inner row) holds.
template <int kInner, int kColumns, class A, class Meet>
JNORM_DEVICE void add_weighted_rows_that_meet(const WeightTile<A, kInner>& weights, const RowTile<A, kColumns>& b,
                                              const Meet& meet, RowSums<A, kColumns>& sums) {
  constexpr int N = kLane<A>;
  JNORM_UNROLL_BY(1)
  for (int r = 0; r < kInner; ++r) {
    JNORM_UNROLL
    for (int i = 0; i < kRowsOfThread; ++i) {
      if (!meet(row_of_thread(i), r)) continue;
      const A weight = weights.row(row_of_thread(i))[r];
      JNORM_UNROLL
      for (int j = 0; j < sums.kPacks; ++j) {
        JNORM_UNROLL
        for (int u = 0; u < N; ++u) sums.values[i][j * N + u] += weight * b.row(r)[N * column_of_thread(j) + u];
      }
    }
  }
}

// result = factor[i] sums, or is added to, for the rows of this thread from `first` on, as far as the slice goes.
template <int kColumns, class T>
JNORM_DEVICE void store_rows(const RowSums<Wide<T>, kColumns>& sums, const HeadSlice<T>& slice, Index first, bool packs,
                             bool add) {
  constexpr int N = kLane<Wide<T>>;
  JNORM_UNROLL
  for (int i = 0; i < kRowsOfThread; ++i) {
    const Index row = first + row_of_thread(i);
    if (row >= slice.rows) continue;
    JNORM_UNROLL
    for (int j = 0; j < sums.kPacks; ++j) {
      const int column = N * column_of_thread(j);
      T* const to = slice.data + row * slice.width + column;
      if (packs) {
        if (column >= slice.columns) continue;
        Pack<T, N> pack{};
        if (add) pack = load_pack<N>(to);
        JNORM_UNROLL
        for (int u = 0; u < N; ++u) {
          const Wide<T> value = sums.values[i][j * N + u];
          pack[u] = narrow<T>(add ? widen(pack[u]) + value : value);
        }
        store_output_pack<N>(to, pack);
      } else {
        JNORM_UNROLL
        for (int u = 0; u < N; ++u) {
          const Wide<T> value = sums.values[i][j * N + u];
          if (column + u < slice.columns) to[u] = narrow<T>(add ? widen(to[u]) + value : value);
        }
      }
    }
  }
}

// Over the threads of a row; each of them gets the result.
template <class A>
JNORM_DEVICE A row_max(A value) {
  JNORM_UNROLL
  for (int lanes = kThreadColumns / 2; lanes > 0; lanes /= 2) value = fmax(value, shuffle_xor(value, lanes));
  return value;
}
template <class A>
JNORM_DEVICE A row_sum(A value) {
  JNORM_UNROLL
  for (int lanes = kThreadColumns / 2; lanes > 0; lanes /= 2) value += shuffle_xor(value, lanes);
  return value;
}

// Whether a tile is finite, told by each warp to all of the block: raised before a barrier, read after it.
struct FiniteFlags {
  int* flags;
  JNORM_DEVICE void tell(bool finite) const {
    const unsigned others = ballot(!finite);
    if (lane_index() == 0) flags[warp_index()] = others == 0 ? 1 : 0;
  }
  JNORM_DEVICE bool all() const {
    int finite = 1;
    JNORM_UNROLL
    for (int warp = 0; warp < kAttentionThreads / kWarpSize; ++warp) finite &= flags[warp];
    return finite != 0;
  }
};

// Hands out pieces of the shared memory.
template <class A>
struct SharedPieces {
  A* next = dynamic_smem<A>();
  template <int kRows, class Piece>
  JNORM_DEVICE Piece take() {
    const Piece piece{next};
    next += kRows * Piece::kStride;
    return piece;
  }
  JNORM_DEVICE FiniteFlags flags() {
    const FiniteFlags flags{reinterpret_cast<int*>(next)};
    next += kFlagBytes / sizeof(A);
    return flags;
  }
};

// Which part of the work a block has: the tile, the head, the chunk of columns, the copy. Late tiles come first: where
// causal, those of queries have most to do.
struct AttentionPlace {
  Index tile, batch, head, chunk, copy;
  JNORM_DEVICE AttentionPlace(Index tiles, Index batches, Index heads, Index chunks, Index copies) {
    Index rest = block_x();
    head = rest % heads, rest /= heads;
    batch = rest % batches, rest /= batches;
    chunk = rest % chunks, rest /= chunks;
    copy = rest % copies, rest /= copies;
    tile = tiles - 1 - rest;
  }
};

// [ATT.1] for a tile of queries.
template <class T, int kColumns, int kKeys>
JNORM_KERNEL(kAttentionThreads)
attend(AttentionSizes sizes, Wide<T> scale, const T* q, const T* k, const T* v, bool packs, Index tiles, Index chunks,
       T* y, Wide<T>* lse) {
  using A = Wide<T>;
  constexpr int kAcross = kKeys / kThreadColumns;
  const AttentionPlace place(tiles, sizes.batches, sizes.heads, chunks, 1);
  const Index first_query = place.tile * kTileRows, column = place.chunk * kColumns;
  SharedPieces<A> shared;
  const auto queries = shared.template take<kTileRows, RowTile<A, kColumns>>();
  const auto keys = shared.template take<kKeys, RowTile<A, kColumns>>();
  const auto values = shared.template take<kKeys, RowTile<A, kColumns>>();
  const auto weights = shared.template take<kTileRows, WeightTile<A, kKeys>>();
  const FiniteFlags values_finite = shared.flags();

  const auto query_slice = [&](Index from) {
    return HeadSlice<const T>(q, place.batch, sizes.queries, place.head, sizes.heads, sizes.columns, from);
  };
  const Index key_head = place.head / sizes.group();
  const auto key_slice = [&](Index from) {
    return HeadSlice<const T>(k, place.batch, sizes.keys, key_head, sizes.key_heads, sizes.columns, from);
  };
  const HeadSlice<const T> value_slice(v, place.batch, sizes.keys, key_head, sizes.key_heads, sizes.value_columns,
                                       column);

  A largest[kRowsOfThread], sum[kRowsOfThread];
  JNORM_UNROLL
  for (int i = 0; i < kRowsOfThread; ++i) largest[i] = -A(INFINITY), sum[i] = A(0);
  RowSums<A, kColumns> results;
  const Index seen_keys = smaller(sizes.keys, not_negative(first_query + kTileRows + sizes.lead()));
  for (Index first_key = 0; first_key < seen_keys; first_key += kKeys) {
    A scores[kRowsOfThread][kAcross] = {};
    for (Index chunk = 0; chunk < chunks; ++chunk) {
      block_barrier();  // the tiles before may still be read
      if (first_key == 0 || chunks > 1) {
        load_tile<kTileRows, kColumns>(query_slice(chunk * kColumns), first_query, packs, queries);
      }
      load_tile<kKeys, kColumns>(key_slice(chunk * kColumns), first_key, packs, keys);
      if (chunk == 0) values_finite.tell(load_tile<kKeys, kColumns>(value_slice, first_key, packs, values));
      block_barrier();
      add_row_products(queries, keys, scores);
    }

    const TilePairs pairs(sizes, place.batch, place.head, first_query, first_key);
    const bool all_meet = pairs.all_meet(1, kKeys);  // results of rows beyond the last query are dropped
    JNORM_UNROLL
    for (int i = 0; i < kRowsOfThread; ++i) {
      A top = largest[i];
      JNORM_UNROLL
      for (int j = 0; j < kAcross; ++j) {
        const bool seen = all_meet || pairs.meet(row_of_thread(i), column_of_thread(j));
        scores[i][j] = seen ? scores[i][j] * scale : -A(INFINITY);
        top = fmax(top, scores[i][j]);
      }
      top = row_max(top);
      const A shift = top == -A(INFINITY) ? A(0) : top;
      const A shrink = exp(largest[i] - shift);
      A total = A(0);
      JNORM_UNROLL
      for (int j = 0; j < kAcross; ++j) {
        const A weight = exp(scores[i][j] - shift);
        weights.row(row_of_thread(i))[column_of_thread(j)] = weight;
        total += weight;
      }
      largest[i] = top;
      sum[i] = sum[i] * shrink + row_sum(total);
      JNORM_UNROLL
      for (A& result : results.values[i]) result *= shrink;
    }
    warp_barrier();  // a warp has the weights of its rows to itself
    if (all_meet || values_finite.all()) {
      add_weighted_rows<kKeys>(weights, values, results);
    } else {
      add_weighted_rows_that_meet<kKeys>(
          weights, values, [&](int i, int j) { return pairs.meet(i, j); }, results);
    }
  }

  JNORM_UNROLL
  for (int i = 0; i < kRowsOfThread; ++i) {
    const A scale_of_row = sum[i] == A(0) ? A(0) : A(1) / sum[i];
    JNORM_UNROLL
    for (A& result : results.values[i]) result *= scale_of_row;
    const Index query = first_query + row_of_thread(i);
    if (query < sizes.queries && place.chunk == 0 && column_of_thread(0) == 0) {
      lse[(place.batch * sizes.heads + place.head) * sizes.queries + query] = largest[i] + log(sum[i]);
    }
  }
  store_rows(results, HeadSlice<T>(y, place.batch, sizes.queries, place.head, sizes.heads, sizes.value_columns, column),
             first_query, packs, false);
}

// D = rowsum(dy * y) of each head of each query: a warp for each, whose index in [copy, batch, query, head] it is.
template <class T>
JNORM_KERNEL(kWarpTeamThreads)
attention_row_products(AttentionSizes sizes, const T* dy, const T* y, Index all_rows, Wide<T>* d) {
  const Index row = block_x() * (block_size() / kWarpSize) + warp_index();
  if (row >= all_rows) return;
  const Index head = row % sizes.heads, query = row / sizes.heads % sizes.queries;
  const Index sequence = row / (sizes.heads * sizes.queries);  // of all copies
  const T* const y_row = y + (sequence % sizes.batches * sizes.queries + query) * sizes.heads * sizes.value_columns +
                         head * sizes.value_columns;
  const T* const dy_row = dy + row * sizes.value_columns;
  Sum<Wide<T>> sum;
  for (Index c = lane_index(); c < sizes.value_columns; c += kWarpSize) sum.value += widen(dy_row[c]) * widen(y_row[c]);
  sum = warp_reduce(sum);
  if (lane_index() == 0) d[(sequence * sizes.heads + head) * sizes.queries + query] = sum.value;
}

// The tensors that both kernels of the backward pass read. dy and d have copies.
template <class T>
struct AttentionBackward {
  AttentionSizes sizes;
  Wide<T> scale;
  const T *dy, *q, *k, *v;
  const Wide<T>*lse, *d;
  bool packs;
  Index tiles, chunks, copies;

  JNORM_DEVICE HeadSlice<const T> queries(Index batch, Index head, Index column) const {
    return {q, batch, sizes.queries, head, sizes.heads, sizes.columns, column};
  }
  JNORM_DEVICE HeadSlice<const T> cotangents(Index copy, Index batch, Index head, Index column) const {
    return {dy, copy * sizes.batches + batch, sizes.queries, head, sizes.heads, sizes.value_columns, column};
  }
  JNORM_DEVICE HeadSlice<const T> keys(Index batch, Index key_head, Index column) const {
    return {k, batch, sizes.keys, key_head, sizes.key_heads, sizes.columns, column};
  }
  JNORM_DEVICE HeadSlice<const T> values(Index batch, Index key_head, Index column) const {
    return {v, batch, sizes.keys, key_head, sizes.key_heads, sizes.value_columns, column};
  }
  // What lse or d holds of a query; 0 beyond the last one.
  JNORM_DEVICE Wide<T> of_query(const Wide<T>* statistics, Index sequence, Index head, Index query) const {
    return query < sizes.queries ? statistics[(sequence * sizes.heads + head) * sizes.queries + query] : Wide<T>(0);
  }
};

// The chunks of a head's columns, the one that a block's results are of last: then its tiles are still there.
JNORM_DEVICE Index chunk_column(Index step, Index chunk, Index chunks, int columns) {
  return (chunk + 1 + step) % chunks * columns;
}

// [ATT.3] for a tile of queries: dq.
template <class T, int kColumns, int kKeys>
JNORM_KERNEL(kAttentionThreads)
attend_dq(AttentionBackward<T> in, T* dq, bool add) {
  using A = Wide<T>;
  constexpr int kAcross = kKeys / kThreadColumns;
  const AttentionSizes& sizes = in.sizes;
  const AttentionPlace place(in.tiles, sizes.batches, sizes.heads, in.chunks, in.copies);
  const Index first_query = place.tile * kTileRows, key_head = place.head / sizes.group();
  SharedPieces<A> shared;
  const auto queries = shared.template take<kTileRows, RowTile<A, kColumns>>();
  const auto cotangents = shared.template take<kTileRows, RowTile<A, kColumns>>();
  const auto keys = shared.template take<kKeys, RowTile<A, kColumns>>();
  const auto values = shared.template take<kKeys, RowTile<A, kColumns>>();
  const auto weights = shared.template take<kTileRows, WeightTile<A, kKeys>>();
  const FiniteFlags keys_finite = shared.flags();

  A lse[kRowsOfThread], d[kRowsOfThread];
  JNORM_UNROLL
  for (int i = 0; i < kRowsOfThread; ++i) {
    const Index query = first_query + row_of_thread(i);
    lse[i] = in.of_query(in.lse, place.batch, place.head, query);
    d[i] = in.of_query(in.d, place.copy * sizes.batches + place.batch, place.head, query);
  }
  RowSums<A, kColumns> results;
  const Index seen_keys = smaller(sizes.keys, not_negative(first_query + kTileRows + sizes.lead()));
  for (Index first_key = 0; first_key < seen_keys; first_key += kKeys) {
    A scores[kRowsOfThread][kAcross] = {}, dp[kRowsOfThread][kAcross] = {};
    for (Index step = 0; step < in.chunks; ++step) {
      const Index column = chunk_column(step, place.chunk, in.chunks, kColumns);
      block_barrier();  // the tiles before may still be read
      if (first_key == 0 || in.chunks > 1) {
        load_tile<kTileRows, kColumns>(in.queries(place.batch, place.head, column), first_query, in.packs, queries);
        load_tile<kTileRows, kColumns>(in.cotangents(place.copy, place.batch, place.head, column), first_query,
                                       in.packs, cotangents);
      }
      load_tile<kKeys, kColumns>(in.values(place.batch, key_head, column), first_key, in.packs, values);
      keys_finite.tell(load_tile<kKeys, kColumns>(in.keys(place.batch, key_head, column), first_key, in.packs, keys));
      block_barrier();
      add_row_products(queries, keys, scores);
      add_row_products(cotangents, values, dp);
    }

    const TilePairs pairs(sizes, place.batch, place.head, first_query, first_key);
    const bool all_meet = pairs.all_meet(1, kKeys);  // results of rows beyond the last query are dropped
    JNORM_UNROLL
    for (int i = 0; i < kRowsOfThread; ++i) {
      JNORM_UNROLL
      for (int j = 0; j < kAcross; ++j) {
        const bool seen = all_meet || pairs.meet(row_of_thread(i), column_of_thread(j));
        const A p = exp(scores[i][j] * in.scale - lse[i]);
        weights.row(row_of_thread(i))[column_of_thread(j)] = seen ? p * (dp[i][j] - d[i]) * in.scale : A(0);  // [ATT.2]
      }
    }
    warp_barrier();  // a warp has the weights of its rows to itself
    if (all_meet || keys_finite.all()) {
      add_weighted_rows<kKeys>(weights, keys, results);
    } else {
      add_weighted_rows_that_meet<kKeys>(
          weights, keys, [&](int i, int j) { return pairs.meet(i, j); }, results);
    }
  }
  store_rows(results,
             HeadSlice<T>(dq, place.copy * sizes.batches + place.batch, sizes.queries, place.head, sizes.heads,
                          sizes.columns, place.chunk * kColumns),
             first_query, in.packs, add);
}

// [ATT.2] and [ATT.3] for a tile of keys: dv and dk, either of which may be null. All is transposed: rows are keys.
template <class T, int kColumns, int kQueries>
JNORM_KERNEL(kAttentionThreads)
attend_dk_dv(AttentionBackward<T> in, T* dk, bool add_dk, T* dv, bool add_dv) {
  using A = Wide<T>;
  constexpr int kAcross = kQueries / kThreadColumns;
  const AttentionSizes& sizes = in.sizes;
  const AttentionPlace place(in.tiles, sizes.batches, sizes.key_heads, in.chunks, in.copies);
  // The first tiles of keys have the most to do.
  const Index first_key = (in.tiles - 1 - place.tile) * kTileRows, key_head = place.head;
  SharedPieces<A> shared;
  const auto keys = shared.template take<kTileRows, RowTile<A, kColumns>>();
  const auto values = shared.template take<kTileRows, RowTile<A, kColumns>>();
  const auto queries = shared.template take<kQueries, RowTile<A, kColumns>>();
  const auto cotangents = shared.template take<kQueries, RowTile<A, kColumns>>();
  const auto weights = shared.template take<kTileRows, WeightTile<A, kQueries>>();
  const FiniteFlags queries_finite = shared.flags(), cotangents_finite = shared.flags();

  RowSums<A, kColumns> dk_sums, dv_sums;
  bool first_pass = true;
  for (Index member = 0; member < sizes.group(); ++member) {
    const Index head = key_head * sizes.group() + member;
    // The first query that sees one of these keys.
    const Index from = not_negative(first_key - sizes.lead()) / kQueries * kQueries;
    for (Index first_query = from; first_query < sizes.queries; first_query += kQueries) {
      const TilePairs pairs(sizes, place.batch, head, first_query, first_key);
      const bool all_meet = pairs.all_meet(kQueries, kTileRows);
      const auto meet = [&](int i, int j) { return pairs.meet(j, i); };
      const auto add_to = [&](RowSums<A, kColumns>& sums, const RowTile<A, kColumns>& rows, bool rows_finite) {
        warp_barrier();  // a warp has the weights of its rows to itself
        if (all_meet || rows_finite) {
          add_weighted_rows<kQueries>(weights, rows, sums);
        } else {
          add_weighted_rows_that_meet<kQueries>(weights, rows, meet, sums);
        }
        warp_barrier();
      };

      A products[kRowsOfThread][kAcross] = {};
      for (Index step = 0; step < in.chunks; ++step) {
        const Index column = chunk_column(step, place.chunk, in.chunks, kColumns);
        block_barrier();  // the tiles before may still be read
        if (first_pass || in.chunks > 1) {
          load_tile<kTileRows, kColumns>(in.keys(place.batch, key_head, column), first_key, in.packs, keys);
          load_tile<kTileRows, kColumns>(in.values(place.batch, key_head, column), first_key, in.packs, values);
        }
        queries_finite.tell(
            load_tile<kQueries, kColumns>(in.queries(place.batch, head, column), first_query, in.packs, queries));
        cotangents_finite.tell(load_tile<kQueries, kColumns>(in.cotangents(place.copy, place.batch, head, column),
                                                             first_query, in.packs, cotangents));
        block_barrier();
        add_row_products(keys, queries, products);
      }
      JNORM_UNROLL
      for (int j = 0; j < kAcross; ++j) {
        const A lse = in.of_query(in.lse, place.batch, head, first_query + column_of_thread(j));
        JNORM_UNROLL
        for (int i = 0; i < kRowsOfThread; ++i) {
          const bool seen = all_meet || meet(row_of_thread(i), column_of_thread(j));
          weights.row(row_of_thread(i))[column_of_thread(j)] = seen ? exp(products[i][j] * in.scale - lse) : A(0);  // P
          products[i][j] = A(0);
        }
      }
      add_to(dv_sums, cotangents, cotangents_finite.all());

      for (Index step = 0; step < in.chunks; ++step) {
        if (in.chunks > 1) {
          const Index column = chunk_column(step, place.chunk, in.chunks, kColumns);
          block_barrier();
          load_tile<kTileRows, kColumns>(in.values(place.batch, key_head, column), first_key, in.packs, values);
          load_tile<kQueries, kColumns>(in.cotangents(place.copy, place.batch, head, column), first_query, in.packs,
                                        cotangents);
          block_barrier();
        }
        add_row_products(values, cotangents, products);
      }
      JNORM_UNROLL
      for (int j = 0; j < kAcross; ++j) {
        const A d =
            in.of_query(in.d, place.copy * sizes.batches + place.batch, head, first_query + column_of_thread(j));
        JNORM_UNROLL
        for (int i = 0; i < kRowsOfThread; ++i) {
          const bool seen = all_meet || meet(row_of_thread(i), column_of_thread(j));
          A& weight = weights.row(row_of_thread(i))[column_of_thread(j)];
          weight = seen ? weight * (products[i][j] - d) * in.scale : A(0);  // [ATT.2]
        }
      }
      add_to(dk_sums, queries, queries_finite.all());
      first_pass = false;
    }
  }
  const Index sequence = place.copy * sizes.batches + place.batch, column = place.chunk * kColumns;
  if (dk != nullptr) {
    store_rows(dk_sums, HeadSlice<T>(dk, sequence, sizes.keys, key_head, sizes.key_heads, sizes.columns, column),
               first_key, in.packs, add_dk);
  }
  if (dv != nullptr) {
    store_rows(dv_sums, HeadSlice<T>(dv, sequence, sizes.keys, key_head, sizes.key_heads, sizes.value_columns, column),
               first_key, in.packs, add_dv);
  }
}

}  // namespace jnorm::cuda
