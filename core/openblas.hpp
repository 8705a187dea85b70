#pragma once

// OpenBLAS: its matrix products on the calling thread, and which of its kernels they run.

#include <string>

#include <jnorm/core/shape.hpp>

namespace jnorm {

std::string blas_core_name();    // the processor that the running kernels are written for, such as "SkylakeX"
std::string blas_description();  // "OpenBLAS 0.3.21, SkylakeX kernels"

namespace blas {

// Gives OpenBLAS the right kernels on a processor that it doesn't know. Runs once by itself before main(). Must never
// run while any thread is inside OpenBLAS.
void choose_kernels();

// c[m, n] = alpha op(a)[m, k] op(b)[k, n] + beta c, row-major; ld is the distance between stored rows. Sizes and
// distances fit into 32 bits.
void gemm(bool transpose_a, bool transpose_b, Index m, Index n, Index k, float alpha, const float* a, Index lda,
          const float* b, Index ldb, float beta, float* c, Index ldc);
void gemm(bool transpose_a, bool transpose_b, Index m, Index n, Index k, double alpha, const double* a, Index lda,
          const double* b, Index ldb, double beta, double* c, Index ldc);

// y = alpha op(a) x + beta y for a stored as [rows, columns]; strides are between elements.
void gemv(bool transpose_a, Index rows, Index columns, float alpha, const float* a, Index lda, const float* x,
          Index x_stride, float beta, float* y, Index y_stride);
void gemv(bool transpose_a, Index rows, Index columns, double alpha, const double* a, Index lda, const double* x,
          Index x_stride, double beta, double* y, Index y_stride);

}  // namespace blas

}  // namespace jnorm
