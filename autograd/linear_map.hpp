#pragma once

#include <jnorm/autograd/matrix_free.hpp>
#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// The Jacobian J = d to / d from between two nodes of one tape, as a linear map: row i belongs to element i of `to`,
// column j to element j of `from`, both row-major. One recorded forward serves it; nothing runs again.
//
// Where `to` doesn't depend on `from` its derivative is zero, and so is the map: exactly, and without an error.
//
// It refers to the tape and must not outlive it; after tape.reset() applying it is an Error(state).
class LinearMap {
 public:
  Index rows() const { return to_.value().size(); }
  Index columns() const { return from_.value().size(); }

  // J v and J^T u, for a tangent shaped like `from` and a cotangent shaped like `to`, or with a leading axis of K.
  Tensor apply(const Tensor& tangent) const;
  Tensor apply_transposed(const Tensor& cotangent) const;

  // The matrix [rows, columns]. Its rows come from reverse sweeps with 32 one-hot cotangents each, on all threads; a
  // sweep carries the live rows of its cotangents alone. The matrix is computed when it is first needed and kept, by
  // this map and its later copies. It is on the CPU, where its measures are taken, whatever device recorded the two.
  const Tensor& dense() const;

  double frobenius_norm() const;
  // These two throw Error(argument) unless the map is square.
  double trace() const;
  double distance_to_identity() const;  // ||J - I||_F / sqrt(N)

  // The `count` largest in descending order, in float64; by default all min(rows, columns) of them. A few of a large
  // map's come from Lanczos, to 1e-10 of the largest, if the matrix isn't there yet.
  Tensor singular_values(Index count = -1) const;
  // The largest singular value. A large map's comes from power iteration, and from Lanczos where that is too slow.
  double spectral_norm(const PowerIteration& options = {}) const;
  // The sum of the logarithms of all singular values: of how much the map blows up volume. -inf if one of them is 0.
  double log_volume() const;

  // The same numbers from products with `samples` random vectors, with error bars, however large the map.
  Estimate estimate_trace(Index samples, Rng& rng) const;
  Estimate estimate_frobenius_norm(Index samples, Rng& rng) const;
  Estimate estimate_distance_to_identity(Index samples, Rng& rng) const;

  // The map on flat float64 vectors, for algorithms that need its products only. It refers to the tape, too.
  MatrixFree matrix_free() const;

 private:
  friend LinearMap linearize(const Var& to, const Var& from, SourceLine line);
  LinearMap(const Var& to, const Var& from, SourceLine line) : to_(to), from_(from), line_(line) {}
  void expect_square(const char* measure) const;
  bool is_cheaper_dense(Index count) const;

  Var to_;
  Var from_;
  SourceLine line_;
  mutable Tensor dense_;
};

// Throws Error(argument) if the two aren't values of one tape.
LinearMap linearize(const Var& to, const Var& from, SourceLine line = SourceLine::here());

// The dense matrix d y / d x, [size of y, size of x].
Tensor jacobian(const Var& y, const Var& x, SourceLine line = SourceLine::here());

}  // namespace jnorm
