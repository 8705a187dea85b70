#pragma once

// What can be known of a matrix from its products with vectors alone, without forming it. All of it is float64.

#include <functional>

#include <jnorm/core/random.hpp>
#include <jnorm/core/tensor.hpp>

namespace jnorm {

// A matrix J [rows, columns] by its products with K vectors at a time.
struct MatrixFree {
  Index rows = 0;
  Index columns = 0;
  std::function<Tensor(const Tensor&)> apply;             // v [K, columns] -> J v [K, rows]
  std::function<Tensor(const Tensor&)> apply_transposed;  // u [K, rows] -> J^T u [K, columns]
};

// The `count` largest singular values in descending order, by block Golub-Kahan-Lanczos bidiagonalization with full
// reorthogonalization (Golub and Kahan 1965; Golub, Luk and Overton 1981). Each one has converged when its residual
// ||J^T u - sigma v|| is at most `tolerance` times the largest; it is off by no more than that, and mostly by the
// square. The small ones converge last: don't ask for sigma_min this way.
//
// A block has `count` vectors and a few more, so a value that occurs several times is found as often. Throws
// Error(argument) unless 0 <= count <= min(rows, columns), and Error(non_finite) if a product with the map isn't
// finite.
Tensor lanczos_singular_values(const MatrixFree& map, Index count, double tolerance = 1e-10);

struct PowerIteration {
  double tolerance = 1e-8;  // of ||J^T J v - sigma^2 v|| / sigma^2; the error of sigma is mostly its square
  Index most_iterations = 500;
};

struct SpectralNorm {
  double value = 0.0;  // never above the true one, rounding apart
  Index iterations = 0;
  bool converged = false;
};

// The largest singular value, by power iteration on J^T J. Two that are nearly equal make it slow: the error shrinks by
// (sigma_2 / sigma_1)^2 a step. Throws Error(non_finite) as above.
SpectralNorm power_iteration(const MatrixFree& map, const PowerIteration& options = {});

// A number measured with random vectors. It is within two standard errors of the truth in about 95 of 100 cases.
struct Estimate {
  double value = 0.0;
  double standard_error = 0.0;
  Index samples = 0;
};

// Of tr J = E z^T J z, ||J||_F = sqrt(E ||J^T z||^2) and ||J - I||_F / sqrt(N) for random signs z (Hutchinson 1990).
// The rng moves on. Throw Error(argument) on fewer than 2 samples; the first and the last also unless the map is
// square.
Estimate estimate_trace(const MatrixFree& map, Index samples, Rng& rng);
Estimate estimate_frobenius_norm(const MatrixFree& map, Index samples, Rng& rng);
Estimate estimate_distance_to_identity(const MatrixFree& map, Index samples, Rng& rng);

}  // namespace jnorm
