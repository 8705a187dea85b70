#pragma once

// Decompositions of matrices: float64 or float32, rank 2. They throw Error(argument) on any other tensor and
// Error(non_finite) on a NaN or infinity.

#include <jnorm/core/tensor.hpp>

namespace jnorm {

// The singular values of a [m, n], largest first: [min(m, n)].
Tensor singular_values(const Tensor& a);

// a = u diag(s) vt, largest singular value first.
struct Svd {
  Tensor u;   // [m, min(m, n)], orthonormal columns
  Tensor s;   // [min(m, n)]
  Tensor vt;  // [min(m, n), n], orthonormal rows
};
Svd svd(const Tensor& a);

}  // namespace jnorm
