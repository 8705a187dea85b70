// Multi-head attention, one head of one sequence after the other. With S = scale q k^T for the pairs of a query and a
// key that may meet:
//
//   [ATT.1]  P = softmax of S's rows        y = P v
//   [ATT.2]  dv = P^T dy     dP = dy v^T     dS = P * (dP - rowsum(P * dP))
//   [ATT.3]  dq = scale dS k                 dk = scale dS^T q
//
// A head is a slice of D columns of [B, T, H], read where it lies. A group of query heads may read one head of keys and
// values, whose gradients then sum over the group. A head's queries are taken in blocks, so that most of what is above
// the diagonal is never computed. S, P, dP and dS are held transposed, one row a key: then the lanes of a
// vector are neighbouring queries, and a softmax is the same few instructions for all of them.
//
// Masks select. What a masked pair's product gives is thrown away, whatever it is, and P and dS are exactly 0 there. A
// query that sees no key has y = 0.

#include <cmath>
#include <limits>
#include <numeric>

#include <jnorm/core/gemm.hpp>
#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/kernels/single_query.hpp>
#include <jnorm/core/parallel.hpp>
#include <jnorm/core/simd.hpp>

namespace jnorm::cpu {

namespace {

constexpr Index kBlockQueries = 64;
// Multiplications that are worth waking a thread for: a few microseconds.
constexpr Index kChunkWork = Index{1} << 18;

// One head's rows: `columns` of the `width` columns of a tensor.
template <class T>
struct Slice {
  T* data;
  Index width, columns;
  T* operator[](Index row) const { return data + row * width; }
  Slice from(Index row) const { return {(*this)[row], width, columns}; }
};

struct Sizes {
  Index batches, heads, key_heads, queries, keys;
  Index columns, value_columns;  // of a head, in q and k and in v and y
  bool causal;

  Sizes(const AttentionSettings& settings, const Tensor& q, const Tensor& k, const Tensor& v)
      : batches(q.dim(0)),
        heads(settings.heads),
        key_heads(settings.key_heads),
        queries(q.dim(1)),
        keys(k.dim(1)),
        columns(q.dim(2) / heads),
        value_columns(v.dim(2) / key_heads),
        causal(settings.causal) {}

  Index all_heads() const { return batches * heads; }
  Index group() const { return heads / key_heads; }  // query heads that read one head of the keys
  // The slice of one of all heads in q or y, [batches, queries, heads * head_columns].
  template <class T>
  Slice<T> query_slice(T* data, Index head, Index head_columns) const {
    return slice(data, head, heads, queries, head_columns);
  }
  // The slice that the head reads in k or v, [batches, keys, key_heads * head_columns].
  template <class T>
  Slice<T> key_slice(T* data, Index head, Index head_columns) const {
    return slice(data, head / group(), key_heads, keys, head_columns);
  }
  // Query i sees the keys up to i + lead. The last query is aligned with the last key, as with a cache of earlier keys.
  Index lead() const { return causal ? keys - queries : keys; }
  // Heads in a chunk, for `products` products of the size of q k^T in each. A chunk has scratch memory of its own,
  // which stays in the cache from head to head; hence one chunk a thread. No head's result depends on the others in its
  // chunk, but those of one team of `team` heads, which stays whole.
  Index grain(Index products, Index team = 1) const {
    const Index work = team * products * queries * keys * std::max(columns, value_columns);
    const Index teams = (all_heads() / team + thread_count() - 1) / thread_count();
    return team * std::max(teams, kChunkWork / std::max<Index>(1, work) + 1);
  }

 private:
  template <class T>
  static Slice<T> slice(T* data, Index head, Index head_count, Index length, Index head_columns) {
    const Index width = head_count * head_columns;
    return {data + head / head_count * length * width + head % head_count * head_columns, width, head_columns};
  }
};

// The queries [first, end) of a head. They see the keys [0, keys), the earlier ones perhaps not all of them.
struct Block {
  Index first, end, keys;
  Block(const Sizes& sizes, Index first_query)
      : first(first_query),
        end(std::min(first + kBlockQueries, sizes.queries)),
        keys(std::clamp(end + sizes.lead(), Index{0}, sizes.keys)) {}
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
        size_(sizes.keys * BlockMatrix<T>::kStride),
        matrices_(matrices),
        memory_(Tensor::uninitialized({(sizes.all_heads() + grain - 1) / grain, matrices, size_}, dtype_of<T>)) {}

  BlockMatrix<T> matrix(Index first_head, Index number) const {
    return {memory_.template output_data<T>() + (first_head / grain_ * matrices_ + number) * size_};
  }

 private:
  Index grain_, size_, matrices_;
  Tensor memory_;
};

// A mask [B or 1, heads or 1, Tq or 1, Tk]; an axis of size 1 repeats.
class Mask {
 public:
  Mask() = default;
  explicit Mask(const Tensor& mask) {
    if (!mask.defined()) return;
    const auto stride = [&](int axis, Index size) { return mask.dim(axis) == 1 ? 0 : size; };
    data_ = mask.data<std::int32_t>();
    query_ = stride(2, mask.dim(3));
    head_ = stride(1, mask.dim(2) * mask.dim(3));
    batch_ = stride(0, mask.dim(1) * mask.dim(2) * mask.dim(3));
  }
  bool defined() const { return data_ != nullptr; }
  // The keys of a query, each 1 or 0.
  const std::int32_t* row(const Sizes& sizes, Index head, Index query) const {
    return data_ + head / sizes.heads * batch_ + head % sizes.heads * head_ + query * query_;
  }

 private:
  const std::int32_t* data_ = nullptr;
  Index batch_ = 0, head_ = 0, query_ = 0;
};

// Which keys the queries of a block see: those up to the diagonal, or, with a mask, those where `mask` isn't 0.
template <class T>
struct Seen {
  Index diagonal;       // the last key that the block's first query sees
  BlockMatrix<T> mask;  // [keys, queries]; data is null without a mask

  bool sees(Index query, Index key) const {
    return mask.data == nullptr ? key <= diagonal + query : *mask.at(key, query) != T(0);
  }
};

// With a mask, it is copied into the block's layout, the diagonal included.
template <class T>
Seen<T> seen_by(const Sizes& sizes, const Block& block, const Mask& mask, Index head, BlockMatrix<T> copy) {
  const Seen<T> up_to_diagonal{block.first + sizes.lead(), {nullptr}};
  if (!mask.defined()) return up_to_diagonal;
  for (Index i = 0; i < block.queries(); ++i) {
    const std::int32_t* const row = mask.row(sizes, head, block.first + i);
    for (Index j = 0; j < block.keys; ++j) *copy.at(j, i) = T(row[j] != 0 && up_to_diagonal.sees(i, j) ? 1 : 0);
  }
  return {up_to_diagonal.diagonal, copy};
}

// The value for queries that see the key, `other` for those that don't: of a vector of queries, the first `ahead` ones.
template <class T>
Vector<T> unless_ahead(Index ahead, Vector<T> value, T other) {
  if (ahead <= 0) return value;
  alignas(64) T lanes[kLanes<T>];
  std::iota(lanes, lanes + kLanes<T>, T(0));
  return xsimd::select(Vector<T>::load_aligned(lanes) >= Vector<T>(static_cast<T>(ahead)), value, Vector<T>(other));
}

// Calls body(query, keys, where_seen) for each vector of a block's queries: the number of keys that some of them may
// see, and where_seen(j, value, other), which is the value for queries that see key j and `other` for the rest.
template <class T, class Body>
void for_each_vector(const Block& block, const Seen<T>& seen, Body&& body) {
  for (Index query = 0; query < block.queries(); query += kLanes<T>) {
    if (seen.mask.data != nullptr) {
      body(query, block.keys, [&seen, query](Index key, Vector<T> value, T other) {
        const Vector<T> mask = Vector<T>::load_aligned(seen.mask.at(key, query));
        return xsimd::select(mask != Vector<T>(T(0)), value, Vector<T>(other));
      });
    } else {
      const Index diagonal = seen.diagonal + query;
      body(query, std::clamp(diagonal + kLanes<T>, Index{0}, block.keys),
           [diagonal](Index key, Vector<T> value, T other) { return unless_ahead(key - diagonal, value, other); });
    }
  }
}

// The keys from `keys` on are seen by none of a vector of queries.
template <class T>
void clear_unseen(const Block& block, BlockMatrix<T> p, Index query, Index keys) {
  for (Index j = keys; j < block.keys; ++j) Vector<T>(T(0)).store_aligned(p.at(j, query));
}

// Scores become probabilities. lse receives logsumexp of each query's scores, -inf for a query that sees no key.
template <class T>
void softmax(const Block& block, const Seen<T>& seen, BlockMatrix<T> p, T* lse) {
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  for_each_vector<T>(block, seen, [&](Index query, Index keys, auto where_seen) {
    Vector<T> largest(lowest), sum(T(0));
    for (Index j = 0; j < keys; ++j) {
      largest = xsimd::max(largest, where_seen(j, Vector<T>::load_aligned(p.at(j, query)), lowest));
    }
    for (Index j = 0; j < keys; ++j) {
      const Vector<T> score = Vector<T>::load_aligned(p.at(j, query));
      const Vector<T> weight = where_seen(j, xsimd::exp(score - largest), T(0));
      weight.store_aligned(p.at(j, query));
      sum += weight;
    }
    // The largest score that is seen has the weight 1, so only where none is seen is the sum 0.
    const Vector<T> scale = xsimd::select(sum == Vector<T>(T(0)), sum, T(1) / sum);
    for (Index j = 0; j < keys; ++j) (Vector<T>::load_aligned(p.at(j, query)) * scale).store_aligned(p.at(j, query));
    clear_unseen(block, p, query, keys);
    store_first(lse + query, largest + xsimd::log(sum), std::min(kLanes<T>, block.queries() - query));
  });
}

// Scores become probabilities, by the logsumexp that softmax left.
template <class T>
void probabilities(const Block& block, const Seen<T>& seen, BlockMatrix<T> p, const T* lse) {
  for_each_vector<T>(block, seen, [&](Index query, Index keys, auto where_seen) {
    const Vector<T> log_sum = load_first(lse + query, std::min(kLanes<T>, block.queries() - query));
    for (Index j = 0; j < keys; ++j) {
      const Vector<T> score = Vector<T>::load_aligned(p.at(j, query));
      where_seen(j, xsimd::exp(score - log_sum), T(0)).store_aligned(p.at(j, query));
    }
    clear_unseen(block, p, query, keys);
  });
}

// dP becomes dS = P * (dP - rowsum(P * dP)).
template <class T>
void softmax_vjp(const Block& block, const Seen<T>& seen, BlockMatrix<T> p, BlockMatrix<T> ds) {
  for_each_vector<T>(block, seen, [&](Index query, Index keys, auto where_seen) {
    const auto p_at = [&](Index j) { return Vector<T>::load_aligned(p.at(j, query)); };
    const auto dp_at = [&](Index j) { return Vector<T>::load_aligned(ds.at(j, query)); };
    Vector<T> mean(T(0));
    for (Index j = 0; j < keys; ++j) mean = xsimd::fma(p_at(j), where_seen(j, dp_at(j), T(0)), mean);
    for (Index j = 0; j < keys; ++j) {
      where_seen(j, p_at(j) * (dp_at(j) - mean), T(0)).store_aligned(ds.at(j, query));
    }
    clear_unseen(block, ds, query, keys);
  });
}

enum class Sum { over_keys, over_queries };

// c = alpha p^T b + beta c, [queries, D], or c = alpha p b + beta c, [keys, D]. p is 0 for pairs that don't meet. A
// product would multiply these zeros by b's rows too; if b has a NaN, it must not reach c that way.
template <class T>
void sparse_product(const Block& block, const Seen<T>& seen, Sum sum, T alpha, BlockMatrix<T> p, Slice<const T> b,
                    bool b_is_finite, T beta, Slice<T> c) {
  const bool over_keys = sum == Sum::over_keys;
  const Index m = over_keys ? block.queries() : block.keys, k = over_keys ? block.keys : block.queries();
  gemm(over_keys, false, m, c.columns, b_is_finite ? k : 0, alpha, p.data, p.kStride, b.data, b.width, beta, c.data,
       c.width);
  if (b_is_finite) return;
  for (Index i = 0; i < block.queries(); ++i) {
    for (Index j = 0; j < block.keys; ++j) {
      if (!seen.sees(i, j)) continue;
      const T weight = alpha * *p.at(j, i);
      const T* const from = b[over_keys ? j : i];
      T* const to = c[over_keys ? i : j];
      for (Index column = 0; column < c.columns; ++column) to[column] += weight * from[column];
    }
  }
}

// scores[keys, queries] = alpha keys queries^T, where the queries are those of the block.
template <class T>
void block_product(const Block& block, T alpha, Slice<const T> keys, Slice<const T> queries, BlockMatrix<T> scores) {
  gemm(false, true, block.keys, block.queries(), keys.columns, alpha, keys.data, keys.width, queries.data,
       queries.width, T(0), scores.data, scores.kStride);
}

// Sequences of a single query, which sees all keys.
void attend_single_queries(const Sizes& sizes, double scale, const Tensor& q, const Tensor& k, const Tensor& v,
                           const Tensor& y, const Tensor& lse) {
  dispatch_wide("attention", q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Index row_length = SingleQuery<T>::row_length(sizes.keys);
    const Tensor scores = Tensor::uninitialized({sizes.all_heads(), row_length}, dtype_of<T>);
    const auto sequence = [&](Index batch) {
      const Index key_width = k.dim(2), value_width = v.dim(2), first_head = batch * sizes.heads;
      return SingleQuery<T>{.count = sizes.keys,
                            .columns = sizes.columns,
                            .value_columns = sizes.value_columns,
                            .key_width = key_width,
                            .value_width = value_width,
                            .group = sizes.group(),
                            .scale = static_cast<T>(scale),
                            .q = q.data<T>() + first_head * sizes.columns,
                            .keys = k.data<T>() + batch * sizes.keys * key_width,
                            .values = v.data<T>() + batch * sizes.keys * value_width,
                            .y = y.output_data<T>() + first_head * sizes.value_columns,
                            .lse = lse.output_data<T>() + first_head,
                            .scores = scores.output_data<T>() + first_head * row_length};
    };
    parallel_for(sizes.all_heads(), sizes.grain(2), [&](Index begin, Index end) {
      for (Index head = begin; head < end;) {
        const Index batch = head / sizes.heads, first_head = batch * sizes.heads;
        const Index last = std::min(end, first_head + sizes.heads);
        sequence(batch).attend(head - first_head, last - first_head);
        head = last;
      }
    });
  });
}

void clear(const Destination& gradient) {
  if (gradient.wanted() && !gradient.add) fill(gradient.tensor, 0.0);
}

}  // namespace

void attention(const AttentionSettings& settings, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
               const Tensor& y, const Tensor& lse) {
  if (y.size() == 0) return;
  const Sizes sizes(settings, q, k, v);
  if (sizes.queries == 1 && sizes.keys > 0 && !mask.defined()) {  // it sees all keys, also if it is causal
    return attend_single_queries(sizes, settings.scale, q, k, v, y, lse);
  }
  const Mask pairs(mask);
  const bool v_is_finite = all_finite(v);
  dispatch_wide("attention", q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Index grain = sizes.grain(2);
    const Scratch<T> scratch(sizes, pairs.defined() ? 2 : 1, grain);
    parallel_for(sizes.all_heads(), grain, [&](Index begin, Index end) {
      const BlockMatrix<T> p = scratch.matrix(begin, 0), mask_copy = scratch.matrix(begin, 1);
      for (Index head = begin; head < end; ++head) {
        const auto queries = sizes.query_slice(q.data<T>(), head, sizes.columns);
        const auto keys = sizes.key_slice(k.data<T>(), head, sizes.columns);
        const auto values = sizes.key_slice(v.data<T>(), head, sizes.value_columns);
        const auto results = sizes.query_slice(y.output_data<T>(), head, sizes.value_columns);
        for (Index first = 0; first < sizes.queries; first += kBlockQueries) {
          const Block block(sizes, first);
          const Seen<T> seen = seen_by(sizes, block, pairs, head, mask_copy);
          block_product(block, static_cast<T>(settings.scale), keys, queries.from(first), p);
          softmax(block, seen, p, lse.output_data<T>() + head * sizes.queries + first);
          sparse_product(block, seen, Sum::over_keys, T(1), p, values, v_is_finite, T(0),
                         results.from(first));  // [ATT.1]
        }
      }
    });
  });
}

void attention_backward(const AttentionSettings& settings, const Tensor& dy, const Tensor& q, const Tensor& k,
                        const Tensor& v, const Tensor& mask, const Tensor& y, const Tensor& lse, const Destination& dq,
                        const Destination& dk, const Destination& dv) {
  if (y.size() == 0) {  // y depends on nothing
    for (const Destination* const gradient : {&dq, &dk, &dv}) clear(*gradient);
    return;
  }
  const Sizes sizes(settings, q, k, v);
  const Mask pairs(mask);
  const Index copies = dy.size() / y.size();
  const bool q_is_finite = all_finite(q), k_is_finite = all_finite(k), dy_is_finite = all_finite(dy);
  dispatch_wide("attention_backward", q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T scale = static_cast<T>(settings.scale);
    const Index grain = sizes.grain(1 + 4 * copies, sizes.group());
    const Scratch<T> scratch(sizes, pairs.defined() ? 3 : 2, grain);
    // One copy of a gradient.
    const auto gradient = [](const Destination& d, const Tensor& primal, Index copy) {
      return d.tensor.output_data<T>() + copy * primal.size();
    };

    // What one copy of dy gives through the queries of one block of a head.
    const auto pull_block = [&](const Block& block, const Seen<T>& seen, Index copy, Index head, BlockMatrix<T> p,
                                BlockMatrix<T> ds) {
      const Slice<const T> dy_block =
          sizes.query_slice(dy.data<T>() + copy * y.size(), head, sizes.value_columns).from(block.first);
      // The last block of a group's first head comes first: it reaches all keys, and the others add to what it left.
      const bool comes_first = block.end == sizes.queries && head % sizes.group() == 0;
      const auto beta = [&](const Destination& d) { return d.add || !comes_first ? T(1) : T(0); };
      if (dv.wanted()) {
        sparse_product(block, seen, Sum::over_queries, T(1), p, dy_block, dy_is_finite, beta(dv),
                       sizes.key_slice(gradient(dv, v, copy), head, sizes.value_columns));  // [ATT.2]
      }
      if (!dq.wanted() && !dk.wanted()) return;
      block_product(block, T(1), sizes.key_slice(v.data<T>(), head, sizes.value_columns), dy_block, ds);
      softmax_vjp(block, seen, p, ds);
      if (dq.wanted()) {
        sparse_product(block, seen, Sum::over_keys, scale, ds, sizes.key_slice(k.data<T>(), head, sizes.columns),
                       k_is_finite, dq.add ? T(1) : T(0),
                       sizes.query_slice(gradient(dq, q, copy), head, sizes.columns).from(block.first));  // [ATT.3]
      }
      if (dk.wanted()) {
        sparse_product(block, seen, Sum::over_queries, scale, ds,
                       sizes.query_slice(q.data<T>(), head, sizes.columns).from(block.first), q_is_finite, beta(dk),
                       sizes.key_slice(gradient(dk, k, copy), head, sizes.columns));  // [ATT.3]
      }
    };

    parallel_for(sizes.all_heads(), grain, [&](Index begin, Index end) {
      const BlockMatrix<T> p = scratch.matrix(begin, 0), ds = scratch.matrix(begin, 1);
      for (Index head = begin; head < end; ++head) {
        const auto keys = sizes.key_slice(k.data<T>(), head, sizes.columns);
        const auto queries = sizes.query_slice(q.data<T>(), head, sizes.columns);
        for (Index last = sizes.queries; last > 0;) {
          const Block block(sizes, (last - 1) / kBlockQueries * kBlockQueries);
          const Seen<T> seen = seen_by(sizes, block, pairs, head, scratch.matrix(begin, 2));
          block_product(block, scale, keys, queries.from(block.first), p);
          probabilities(block, seen, p, lse.data<T>() + head * sizes.queries + block.first);
          for (Index copy = 0; copy < copies; ++copy) pull_block(block, seen, copy, head, p, ds);
          last = block.first;
        }
      }
    });
  });
}

}  // namespace jnorm::cpu
