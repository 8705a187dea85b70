#pragma once

#include <span>
#include <vector>

#include <jnorm/core/secular_equation.hpp>
#include <jnorm/core/shape.hpp>

namespace jnorm {

// One block of a norm's Jacobian: m elements of x that meet each other and no others, with
//
//   J = diag(gamma) (1/s) (I - sum over k of (1 - kept_k) e_k e_k^T)      [LN.5] [RMS.5] [SN.5] [BN.5] [GN.5]
//
// The unit vectors e_k are 1 / sqrt(m), of which nothing is kept, and x_hat / ||x_hat||, of which eps/s^2 is. (That is
// the x_hat x_hat^T / m of the formulas, since mean(x_hat^2) = 1 - eps/s^2.) Without directions it is diagonal.
struct NormBlock {
  std::vector<Index> elements;  // where they lie in x, ascending
  std::vector<double> gamma;    // [m]
  double s = 1.0;
  std::vector<ProjectedDirection> directions = {};

  std::size_t size() const { return elements.size(); }
  double entry(std::size_t i, std::size_t j) const;
  // Calls visit(i, j, J_ij), row by row, for a diagonal block on its diagonal alone.
  template <class Visit>
  void for_each_entry(Visit&& visit) const {
    const bool diagonal = directions.empty();
    for (std::size_t i = 0; i < size(); ++i) {
      for (std::size_t j = diagonal ? i : 0; j < (diagonal ? i + 1 : size()); ++j) visit(i, j, entry(i, j));
    }
  }
  // J times `columns` vectors that stand side by side: v and result [m, columns]. They must not overlap.
  void apply(const double* v, Index columns, double* result) const;
  // J^T dy, for one.
  void apply_transposed(const double* dy, double* result) const;

  double trace() const;
  double squared_norm() const;                  // ||J||_F^2
  double squared_distance_to_identity() const;  // ||J - I||_F^2
  double log_volume() const;                    // log |det J|
  // In no order: closed forms where gamma is constant, from the secular equation otherwise.
  std::vector<double> singular_values() const;
  std::vector<double> eigenvalues() const;
};

// The block of a norm that divides the values, centred or not, by s = sqrt(mean(values^2) + eps). The mean and the
// squares are taken so that neither a large mean nor squares out of range spoil them. s is 0 where there is no
// derivative.
NormBlock normalizing_block(std::vector<Index> elements, std::vector<double> values, std::vector<double> gamma,
                            double eps, bool centred);

}  // namespace jnorm
