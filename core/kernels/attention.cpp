// Causal attention, one head of one sequence after the other. With S = q k^T / sqrt(D) on and below the diagonal:
//
//   [ATT.1]  P = softmax of S's rows        y = P v
//   [ATT.2]  dv = P^T dy     dP = dy v^T     dS = P * (dP - rowsum(P * dP)), where rowsum(P * dP) = rowsum(dy * y)
//   [ATT.3]  dq = dS k / sqrt(D)             dk = dS^T q / sqrt(D)
//
// A head is a slice of D columns of [B, T, H], read where it lies. Its rows are taken in blocks, so that most of what
// is above the diagonal is never computed.

#include <cmath>
#include <limits>

#include <jnorm/core/gemm.hpp>
#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/kernels/rows.hpp>

namespace jnorm::cpu {

namespace {

constexpr Index kBlockRows = 64;
// Chunks of heads, each with scratch memory of its own.
constexpr Index kChunks = 64;
// Multiplications that are worth waking a thread for.
constexpr Index kChunkWork = Index{1} << 18;

struct Sizes {
  Index batches, length, width, heads;

  Sizes(const Tensor& q, Index head_count) : batches(q.dim(0)), length(q.dim(1)), width(q.dim(2)), heads(head_count) {}
  Index columns() const { return width / heads; }  // of a head: D
  Index all_heads() const { return batches * heads; }
  Index elements() const { return batches * length * width; }
  // Where the slice of one of all heads begins.
  Index offset(Index head) const { return head / heads * length * width + head % heads * columns(); }
  template <class T>
  T scale() const {
    return T(1) / std::sqrt(static_cast<T>(columns()));
  }
  // Heads in a chunk, for `products` products of the size of q k^T in each.
  Index grain(Index products) const {
    const Index work = products * length * length * columns();
    return std::max((all_heads() + kChunks - 1) / kChunks, kChunkWork / std::max<Index>(1, work) + 1);
  }
};

// Rows [first, end) of the [T, T] matrices of a head, of which the columns [0, end) are not above the diagonal.
struct Block {
  Index first, end;
  Index rows() const { return end - first; }
  Index length(Index row) const { return first + row + 1; }  // columns of a row that are not above the diagonal
};

// The matrices of one block, for every chunk of heads.
template <class T>
class Scratch {
 public:
  Scratch(const Sizes& sizes, Index matrices, Index grain)
      : grain_(grain),
        stride_((sizes.length + kLanes<T> - 1) / kLanes<T> * kLanes<T>),
        matrix_(std::min(kBlockRows, sizes.length) * stride_),
        chunk_(matrices * matrix_),
        memory_(Tensor::uninitialized({(sizes.all_heads() + grain - 1) / grain, chunk_}, dtype_of<T>)) {}

  T* matrix(Index first_head, Index number) const {
    return memory_.template output_data<T>() + first_head / grain_ * chunk_ + number * matrix_;
  }
  Index stride() const { return stride_; }

 private:
  Index grain_, stride_, matrix_, chunk_;
  Tensor memory_;
};

bool all_finite(const Tensor& x) {
  Index first = -1;
  first_non_finite(x, first);
  return first < 0;
}

// c = alpha p b + beta c, or p^T b, for the rows p [block.rows, block.end] of a matrix that is 0 above the diagonal.
// A product would multiply these zeros by b's later rows; if that has a NaN, it must not reach the earlier rows of c.
template <class T>
void causal_product(const Block& block, bool transpose, Index columns, T alpha, const T* p, Index stride, const T* b,
                    Index width, bool b_is_finite, T beta, T* c) {
  if (b_is_finite) {
    const Index m = transpose ? block.end : block.rows(), k = transpose ? block.rows() : block.end;
    return gemm(transpose, false, m, columns, k, alpha, p, stride, b, width, beta, c, width);
  }
  gemm(false, false, transpose ? block.end : block.rows(), columns, 0, alpha, p, stride, b, width, beta, c, width);
  for (Index i = 0; i < block.rows(); ++i) {
    for (Index j = 0; j < block.length(i); ++j) {
      const T weight = alpha * p[i * stride + j];
      const T* const from = b + (transpose ? i : j) * width;
      T* const to = c + (transpose ? j : i) * width;
      for (Index column = 0; column < columns; ++column) to[column] += weight * from[column];
    }
  }
}

// The row's first `length` elements become softmax, those up to `end` 0. Returns logsumexp.
template <class T>
T softmax_row(T* row, Index length, Index end) {
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  const Index padded = (length + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
  std::fill(row + length, row + padded, lowest);
  const T largest = row_max(row, padded);
  const T sum = row_sums<1, T>(padded, [&](auto at) {
    const Batch<T> weight = xsimd::exp(at.load(row) - largest);
    at.store(row, weight);
    return Batches<T, 1>{weight};
  })[0];
  for_each_batch<T>(0, padded, [&](auto at) { at.store(row, at.load(row) * (T(1) / sum)); });
  std::fill(row + length, row + std::max(end, padded), T(0));
  return largest + std::log(sum);
}

// The same from a known logsumexp.
template <class T>
void probabilities_row(T* row, Index length, Index end, T lse) {
  const Index padded = (length + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
  std::fill(row + length, row + padded, lse);
  for_each_batch<T>(0, padded, [&](auto at) { at.store(row, xsimd::exp(at.load(row) - lse)); });
  std::fill(row + length, row + std::max(end, padded), T(0));
}

// The tensors of one head, at its first element.
template <class T>
struct Head {
  const T *q, *k, *v;

  Head(const Tensor& q_all, const Tensor& k_all, const Tensor& v_all, Index offset)
      : q(q_all.data<T>() + offset), k(k_all.data<T>() + offset), v(v_all.data<T>() + offset) {}
};

// scores[block.rows, block.end] = x y^T, where x's rows are those of the block.
template <class T>
void block_product(const Sizes& sizes, const Block& block, T alpha, const T* x, const T* y, T* scores, Index stride) {
  gemm(false, true, block.rows(), block.end, sizes.columns(), alpha, x + block.first * sizes.width, sizes.width, y,
       sizes.width, T(0), scores, stride);
}

}  // namespace

void causal_attention(const Tensor& q, const Tensor& k, const Tensor& v, Index heads, const Tensor& y,
                      const Tensor& lse) {
  const Sizes sizes(q, heads);
  if (sizes.elements() == 0) return;
  const bool v_is_finite = all_finite(v);
  dispatch_wide("causal_attention", q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Index grain = sizes.grain(2);
    const Scratch<T> scratch(sizes, 1, grain);
    const Index stride = scratch.stride();
    parallel_for(sizes.all_heads(), grain, [&](Index begin, Index end) {
      T* const p = scratch.matrix(begin, 0);
      for (Index number = begin; number < end; ++number) {
        const Head<T> head(q, k, v, sizes.offset(number));
        T* const head_y = y.output_data<T>() + sizes.offset(number);
        T* const head_lse = lse.output_data<T>() + number * sizes.length;
        for (Index first = 0; first < sizes.length; first += kBlockRows) {
          const Block block{first, std::min(first + kBlockRows, sizes.length)};
          block_product(sizes, block, sizes.scale<T>(), head.q, head.k, p, stride);
          for (Index row = 0; row < block.rows(); ++row) {
            head_lse[first + row] = softmax_row(p + row * stride, block.length(row), block.end);
          }
          causal_product(block, false, sizes.columns(), T(1), p, stride, head.v, sizes.width, v_is_finite, T(0),
                         head_y + first * sizes.width);  // [ATT.1]
        }
      }
    });
  });
}

void causal_attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& y,
                               const Tensor& lse, Index heads, const Destination& dq, const Destination& dk,
                               const Destination& dv) {
  const Sizes sizes(q, heads);
  if (sizes.elements() == 0) return;
  const Index copies = copies_of(q, dy);
  const bool q_is_finite = all_finite(q), k_is_finite = all_finite(k), dy_is_finite = all_finite(dy);
  dispatch_wide("causal_attention_backward", q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Index grain = sizes.grain(1 + 4 * copies);
    const Scratch<T> scratch(sizes, 2, grain);
    const Index stride = scratch.stride();
    const T scale = sizes.scale<T>();

    // What one copy of dy adds to the gradients through the rows of one block. Blocks come last rows first, so that the
    // first one reaches every row of dk and dv and can overwrite them.
    const auto pull_block = [&](const Block& block, Index copy, Index number, const T* p, T* ds) {
      const Index offset = sizes.offset(number), first = block.first * sizes.width;
      const Index copy_offset = copy * sizes.elements() + offset;
      const bool is_first = block.end == sizes.length;
      const Head<T> head(q, k, v, offset);
      const T* const head_dy = dy.data<T>() + copy_offset;
      const T* const head_y = y.data<T>() + offset;
      const auto beta = [&](const Destination& d) { return d.add || !is_first ? T(1) : T(0); };
      if (dv.wanted()) {
        causal_product(block, true, sizes.columns(), T(1), p, stride, head_dy + first, sizes.width, dy_is_finite,
                       beta(dv), dv.tensor.output_data<T>() + copy_offset);  // [ATT.2]
      }
      if (!dq.wanted() && !dk.wanted()) return;
      block_product(sizes, block, T(1), head_dy, head.v, ds, stride);
      for (Index row = 0; row < block.rows(); ++row) {
        const T* const dy_row = head_dy + first + row * sizes.width;
        const T* const y_row = head_y + first + row * sizes.width;
        const T mean = row_sums<1, T>(sizes.columns(),
                                      [&](auto at) { return Batches<T, 1>{at.load(dy_row) * at.load(y_row)}; })[0];
        const T* const p_row = p + row * stride;
        T* const ds_row = ds + row * stride;
        const Index padded = (block.length(row) + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
        for_each_batch<T>(0, padded, [&](auto at) { at.store(ds_row, at.load(p_row) * (at.load(ds_row) - mean)); });
        std::fill(ds_row + block.length(row), ds_row + std::max(block.end, padded), T(0));
      }
      if (dq.wanted()) {
        causal_product(block, false, sizes.columns(), scale, ds, stride, head.k, sizes.width, k_is_finite,
                       dq.add ? T(1) : T(0), dq.tensor.output_data<T>() + copy_offset + first);  // [ATT.3]
      }
      if (dk.wanted()) {
        causal_product(block, true, sizes.columns(), scale, ds, stride, head.q + first, sizes.width, q_is_finite,
                       beta(dk), dk.tensor.output_data<T>() + copy_offset);  // [ATT.3]
      }
    };

    parallel_for(sizes.all_heads(), grain, [&](Index begin, Index end) {
      T* const p = scratch.matrix(begin, 0);
      T* const ds = scratch.matrix(begin, 1);
      for (Index number = begin; number < end; ++number) {
        const Head<T> head(q, k, v, sizes.offset(number));
        const T* const head_lse = lse.data<T>() + number * sizes.length;
        for (Index last = sizes.length; last > 0;) {
          const Block block{(last - 1) / kBlockRows * kBlockRows, last};
          block_product(sizes, block, scale, head.q, head.k, p, stride);
          for (Index row = 0; row < block.rows(); ++row) {
            probabilities_row(p + row * stride, block.length(row), block.end, head_lse[block.first + row]);
          }
          for (Index copy = 0; copy < copies; ++copy) pull_block(block, copy, number, p, ds);
          last = block.first;
        }
      }
    });
  });
}

}  // namespace jnorm::cpu
