#pragma once

// Selection by a mask of 0 and 1, and products that leave masked pairs out: what is masked reaches no result, even if
// it is NaN, for which multiplying by 0 would not do.

#include <jnorm/cuda/config.hpp>
#include <jnorm/cuda/portable.cuh>

namespace jnorm::cuda {

struct KeepWhereMasked {
  template <class T>
  JNORM_DEVICE T operator()(T x, std::int32_t mask) const {
    return mask != 0 ? x : narrow<T>(Wide<T>(0));
  }
};

// The matrices of a batch repeat along those of y. a and mask [m, k], b [k or m, n], y [m or k, n].
template <class T>
struct MaskedProduct {
  const T *a, *b;
  const std::int32_t* mask;
  Index m, k, n;
  Index a_batches, b_batches, mask_batches;
  bool transpose_a;

  JNORM_DEVICE T result(Index batch, Index row, Index column) const {
    const T *const from_a = a + batch % a_batches * m * k, *const from_b = b + batch % b_batches * inner() * n;
    const std::int32_t* const pairs = mask + batch % mask_batches * m * k;
    Wide<T> sum = Wide<T>(0);
    for (Index i = 0; i < inner(); ++i) {
      const Index pair = transpose_a ? i * k + row : row * k + i;
      if (pairs[pair] != 0) sum += widen(from_a[pair]) * widen(from_b[i * n + column]);
    }
    return narrow<T>(sum);
  }
  JNORM_HOST_DEVICE Index inner() const { return transpose_a ? m : k; }
  JNORM_HOST_DEVICE Index rows() const { return transpose_a ? k : m; }
};

// A thread for each element, neighbours in a row: they read one element of a and neighbours of b.
template <class T>
JNORM_KERNEL(kElementwiseThreads)
masked_products(MaskedProduct<T> product, Index count, T* y) {
  for (Index i = block_x() * block_size() + thread_index(); i < count; i += grid_x() * block_size()) {
    const Index row = i / product.n;
    y[i] = product.result(row / product.rows(), row % product.rows(), i % product.n);
  }
}

}  // namespace jnorm::cuda
