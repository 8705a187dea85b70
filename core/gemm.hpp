#pragma once

#include <jnorm/core/shape.hpp>

namespace jnorm {

// c[m, n] = alpha op(a)[m, k] op(b)[k, n] + beta c, for T = float and double. All row-major; ld is the distance between
// stored rows, which may be wider than they are long; op transposes what is stored as [k, m] or [n, k].
//
// beta = 0 overwrites c, whatever it held. alpha multiplies the finished product, so NaN and infinity in a and b come
// through even if it is 0. c must not overlap a or b. Runs on all threads; the result doesn't depend on their number.
template <class T>
void gemm(bool transpose_a, bool transpose_b, Index m, Index n, Index k, T alpha, const T* a, Index lda, const T* b,
          Index ldb, T beta, T* c, Index ldc);

// c[m, n] = op(a) op(b) with bias[n] added to every row; otherwise like gemm.
template <class T>
void gemm_with_bias(bool transpose_a, bool transpose_b, Index m, Index n, Index k, const T* a, Index lda, const T* b,
                    Index ldb, const T* bias, T* c, Index ldc);

}  // namespace jnorm
