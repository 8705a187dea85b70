// Causal attention, one head of one sequence after the other. With S = q k^T / sqrt(D) on and below the diagonal:
//
//   [ATT.1]  P = softmax of S's rows        y = P v
//   [ATT.2]  dv = P^T dy     dP = dy v^T     dS = P * (dP - rowsum(P * dP))
//   [ATT.3]  dq = dS k / sqrt(D)             dk = dS^T q / sqrt(D)
//
// A head is a slice of D columns of [B, T, H], read where it lies. Its queries are taken in blocks, so that most of
// what is above the diagonal is never computed. S, P, dP and dS are held transposed, one row a key: then the lanes of a
// vector are neighbouring queries, and a softmax is the same few instructions for all of them.

#include <cmath>
#include <limits>
#include <numeric>

#include <jnorm/core/gemm.hpp>
#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/parallel.hpp>
#include <jnorm/core/simd.hpp>

namespace jnorm::cpu {

namespace {

constexpr Index kBlockQueries = 64;
// Multiplications that are worth waking a thread for: a few microseconds.
constexpr Index kChunkWork = Index{1} << 18;

struct Sizes {
  Index batches, length, width, heads;

  Sizes(const Tensor& q, Index head_count) : batches(q.dim(0)), length(q.dim(1)), width(q.dim(2)), heads(head_count) {}
  Index columns() const { return width / heads; }  // of a head: D
  Index all_heads() const { return batches * heads; }
  Index elements() const { return batches * length * width; }
  // Where the slice of one of all heads begins.
  Index offset(Index head) const { return head / heads * length * width + head % heads * columns(); }
  double scale() const { return 1.0 / std::sqrt(static_cast<double>(columns())); }
  // Heads in a chunk, for `products` products of the size of q k^T in each. A chunk has scratch memory of its own,
  // which stays in the cache from head to head; hence one chunk a thread. No head's result depends on the others in its
  // chunk.
  Index grain(Index products) const {
    const Index work = products * length * length * columns();
    return std::max((all_heads() + thread_count() - 1) / thread_count(), kChunkWork / std::max<Index>(1, work) + 1);
  }
};

// The queries [first, end) of a head. They see the keys [0, end), the earlier ones not all of them.
struct Block {
  Index first, end;
  Index queries() const { return end - first; }
};

// A matrix [keys, queries] of one block; its rows are whole vectors of queries.
template <class T>
struct BlockMatrix {
  static constexpr Index kStride = kBlockQueries;
  T* data;
  T* at(Index key, Index query) const { return data + key * kStride + query; }
};

// Memory for the matrices of one block, for every chunk of heads.
template <class T>
class Scratch {
 public:
  Scratch(const Sizes& sizes, Index matrices, Index grain)
      : grain_(grain),
        size_(sizes.length * BlockMatrix<T>::kStride),
        matrices_(matrices),
        memory_(Tensor::uninitialized({(sizes.all_heads() + grain - 1) / grain, matrices, size_}, dtype_of<T>)) {}

  BlockMatrix<T> matrix(Index first_head, Index number) const {
    return {memory_.template output_data<T>() + (first_head / grain_ * matrices_ + number) * size_};
  }

 private:
  Index grain_, size_, matrices_;
  Tensor memory_;
};

bool all_finite(const Tensor& x) {
  Index first = -1;
  first_non_finite(x, first);
  return first < 0;
}

// The value for queries that see the key, `other` for those that don't: of a vector of queries, the first `ahead` ones.
template <class T>
Vector<T> where_seen(Index ahead, Vector<T> value, T other) {
  if (ahead <= 0) return value;
  alignas(64) T lanes[kLanes<T>];
  std::iota(lanes, lanes + kLanes<T>, T(0));
  return xsimd::select(Vector<T>::load_aligned(lanes) >= Vector<T>(static_cast<T>(ahead)), value, Vector<T>(other));
}

// Calls body(query, keys, ahead_of) for each vector of a block's queries: the number of keys that some of them see, and
// how far key j is ahead of the first of them.
template <class T, class Body>
void for_each_vector(const Block& block, Body&& body) {
  for (Index query = 0; query < block.queries(); query += kLanes<T>) {
    const Index diagonal = block.first + query;
    body(query, std::min(block.end, diagonal + kLanes<T>), [diagonal](Index key) { return key - diagonal; });
  }
}

// The keys from `keys` on are seen by none of a vector of queries.
template <class T>
void clear_unseen(const Block& block, BlockMatrix<T> p, Index query, Index keys) {
  for (Index j = keys; j < block.end; ++j) Vector<T>(T(0)).store_aligned(p.at(j, query));
}

// Scores become probabilities. lse receives logsumexp of each query's scores.
template <class T>
void softmax(const Block& block, BlockMatrix<T> p, T* lse) {
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  for_each_vector<T>(block, [&](Index query, Index keys, auto ahead_of) {
    Vector<T> largest(lowest), sum(T(0));
    for (Index j = 0; j < keys; ++j) {
      largest = xsimd::max(largest, where_seen(ahead_of(j), Vector<T>::load_aligned(p.at(j, query)), lowest));
    }
    for (Index j = 0; j < keys; ++j) {
      const Vector<T> score = Vector<T>::load_aligned(p.at(j, query));
      const Vector<T> weight = where_seen(ahead_of(j), xsimd::exp(score - largest), T(0));
      weight.store_aligned(p.at(j, query));
      sum += weight;
    }
    const Vector<T> scale = T(1) / sum;
    for (Index j = 0; j < keys; ++j) (Vector<T>::load_aligned(p.at(j, query)) * scale).store_aligned(p.at(j, query));
    clear_unseen(block, p, query, keys);
    store_first(lse + query, largest + xsimd::log(sum), std::min(kLanes<T>, block.queries() - query));
  });
}

// Scores become probabilities, by the logsumexp that softmax left.
template <class T>
void probabilities(const Block& block, BlockMatrix<T> p, const T* lse) {
  for_each_vector<T>(block, [&](Index query, Index keys, auto ahead_of) {
    const Vector<T> log_sum = load_first(lse + query, std::min(kLanes<T>, block.queries() - query));
    for (Index j = 0; j < keys; ++j) {
      const Vector<T> score = Vector<T>::load_aligned(p.at(j, query));
      where_seen(ahead_of(j), xsimd::exp(score - log_sum), T(0)).store_aligned(p.at(j, query));
    }
    clear_unseen(block, p, query, keys);
  });
}

// dP becomes dS = P * (dP - rowsum(P * dP)).
template <class T>
void softmax_vjp(const Block& block, BlockMatrix<T> p, BlockMatrix<T> ds) {
  for_each_vector<T>(block, [&](Index query, Index keys, auto ahead_of) {
    const auto p_at = [&](Index j) { return Vector<T>::load_aligned(p.at(j, query)); };
    const auto dp_at = [&](Index j) { return Vector<T>::load_aligned(ds.at(j, query)); };
    Vector<T> mean(T(0));
    for (Index j = 0; j < keys; ++j) mean = xsimd::fma(p_at(j), where_seen(ahead_of(j), dp_at(j), T(0)), mean);
    for (Index j = 0; j < keys; ++j) {
      where_seen(ahead_of(j), p_at(j) * (dp_at(j) - mean), T(0)).store_aligned(ds.at(j, query));
    }
    clear_unseen(block, ds, query, keys);
  });
}

enum class Sum { over_keys, over_queries };

// c = alpha p^T b + beta c, [queries, D], or c = alpha p b + beta c, [keys, D]. p is 0 for keys ahead of their queries.
// A product would multiply these zeros by b's rows too; if b has a NaN, it must not reach the earlier rows of c that
// way.
template <class T>
void causal_product(const Sizes& sizes, const Block& block, Sum sum, T alpha, BlockMatrix<T> p, const T* b,
                    bool b_is_finite, T beta, T* c) {
  const bool over_keys = sum == Sum::over_keys;
  const Index m = over_keys ? block.queries() : block.end, k = over_keys ? block.end : block.queries();
  gemm(over_keys, false, m, sizes.columns(), b_is_finite ? k : 0, alpha, p.data, p.kStride, b, sizes.width, beta, c,
       sizes.width);
  if (b_is_finite) return;
  for (Index i = 0; i < block.queries(); ++i) {
    for (Index j = 0; j <= block.first + i; ++j) {
      const T weight = alpha * *p.at(j, i);
      const T* const from = b + (over_keys ? j : i) * sizes.width;
      T* const to = c + (over_keys ? i : j) * sizes.width;
      for (Index column = 0; column < sizes.columns(); ++column) to[column] += weight * from[column];
    }
  }
}

// scores[keys, queries] = alpha keys queries^T, where the queries are those of the block.
template <class T>
void block_product(const Sizes& sizes, const Block& block, T alpha, const T* keys, const T* queries,
                   BlockMatrix<T> scores) {
  gemm(false, true, block.end, block.queries(), sizes.columns(), alpha, keys, sizes.width, queries, sizes.width, T(0),
       scores.data, scores.kStride);
}

}  // namespace

void causal_attention(const Tensor& q, const Tensor& k, const Tensor& v, Index heads, const Tensor& y,
                      const Tensor& lse) {
  const Sizes sizes(q, heads);
  if (sizes.elements() == 0) return;
  const bool v_is_finite = all_finite(v);
  dispatch_wide("causal_attention", q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T scale = static_cast<T>(sizes.scale());
    const Index grain = sizes.grain(2);
    const Scratch<T> scratch(sizes, 1, grain);
    parallel_for(sizes.all_heads(), grain, [&](Index begin, Index end) {
      const BlockMatrix<T> p = scratch.matrix(begin, 0);
      for (Index head = begin; head < end; ++head) {
        const Index offset = sizes.offset(head);
        for (Index first = 0; first < sizes.length; first += kBlockQueries) {
          const Block block{first, std::min(first + kBlockQueries, sizes.length)};
          const Index from = offset + first * sizes.width;
          block_product(sizes, block, scale, k.data<T>() + offset, q.data<T>() + from, p);
          softmax(block, p, lse.output_data<T>() + head * sizes.length + first);
          causal_product(sizes, block, Sum::over_keys, T(1), p, v.data<T>() + offset, v_is_finite, T(0),
                         y.output_data<T>() + from);  // [ATT.1]
        }
      }
    });
  });
}

void causal_attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& /*y*/,
                               const Tensor& lse, Index heads, const Destination& dq, const Destination& dk,
                               const Destination& dv) {
  const Sizes sizes(q, heads);
  if (sizes.elements() == 0) return;
  const Index copies = dy.size() / sizes.elements();
  const bool q_is_finite = all_finite(q), k_is_finite = all_finite(k), dy_is_finite = all_finite(dy);
  dispatch_wide("causal_attention_backward", q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T scale = static_cast<T>(sizes.scale());
    const Index grain = sizes.grain(1 + 4 * copies);
    const Scratch<T> scratch(sizes, 2, grain);

    // What one copy of dy gives through the queries of one block of the head at `offset`.
    const auto pull_block = [&](const Block& block, Index copy, Index offset, BlockMatrix<T> p, BlockMatrix<T> ds) {
      const Index first = block.first * sizes.width, copy_offset = copy * sizes.elements() + offset;
      const T* const dy_block = dy.data<T>() + copy_offset + first;
      // The last block comes first: it reaches all keys, and the others add to what it left.
      const auto beta = [&](const Destination& d) { return d.add || block.end < sizes.length ? T(1) : T(0); };
      if (dv.wanted()) {
        causal_product(sizes, block, Sum::over_queries, T(1), p, dy_block, dy_is_finite, beta(dv),
                       dv.tensor.output_data<T>() + copy_offset);  // [ATT.2]
      }
      if (!dq.wanted() && !dk.wanted()) return;
      block_product(sizes, block, T(1), v.data<T>() + offset, dy_block, ds);
      softmax_vjp(block, p, ds);
      if (dq.wanted()) {
        causal_product(sizes, block, Sum::over_keys, scale, ds, k.data<T>() + offset, k_is_finite, dq.add ? T(1) : T(0),
                       dq.tensor.output_data<T>() + copy_offset + first);  // [ATT.3]
      }
      if (dk.wanted()) {
        causal_product(sizes, block, Sum::over_queries, scale, ds, q.data<T>() + offset + first, q_is_finite, beta(dk),
                       dk.tensor.output_data<T>() + copy_offset);  // [ATT.3]
      }
    };

    parallel_for(sizes.all_heads(), grain, [&](Index begin, Index end) {
      const BlockMatrix<T> p = scratch.matrix(begin, 0), ds = scratch.matrix(begin, 1);
      for (Index head = begin; head < end; ++head) {
        const Index offset = sizes.offset(head);
        for (Index last = sizes.length; last > 0;) {
          const Block block{(last - 1) / kBlockQueries * kBlockQueries, last};
          block_product(sizes, block, scale, k.data<T>() + offset, q.data<T>() + offset + block.first * sizes.width, p);
          probabilities(block, p, lse.data<T>() + head * sizes.length + block.first);
          for (Index copy = 0; copy < copies; ++copy) pull_block(block, copy, offset, p, ds);
          last = block.first;
        }
      }
    });
  });
}

}  // namespace jnorm::cpu
