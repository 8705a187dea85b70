#pragma once

// Matrix products, by cuBLAS (cublas.cpp).

#include <jnorm/core/dtype.hpp>
#include <jnorm/cuda/context.hpp>

namespace jnorm::cuda {

// y = op(a) op(b), or y += op(a) op(b), for a batch of row-major matrices: op(a) is [rows, inner], op(b) [inner,
// columns], y [rows, columns], where op transposes if asked. Sums run in float32 for the narrow types.
struct MatrixProduct {
  DType dtype;
  Index rows, columns, inner;
  bool transpose_a = false, transpose_b = false;
  bool add = false;
  Index batches = 1;
  // Elements from one matrix of the batch to the next; 0 where one serves all.
  Index stride_a = 0, stride_b = 0, stride_y = 0;
};

// Queued on the context's stream. rows, columns, inner and batches are positive. Throws Error(io).
void multiply_matrices(Context& context, const MatrixProduct& product, const void* a, const void* b, void* y);

}  // namespace jnorm::cuda
