#pragma once

#include <vector>

#include <jnorm/core/tensor.hpp>

namespace jnorm {

// The Jacobian of a norm in closed form. For one row x of H numbers
//
//   J = diag(gamma) (1/s) (I - sum over d of d d^T / H)      [LN.5] [RMS.5]
//
// where d is 1 and x_hat for LayerNorm and x_hat alone for RMSNorm. No row sees another, so that the Jacobian of a norm
// on x [..., H] with R rows is block-diagonal, [N, N] with N = R H; it is never formed unless dense() is asked for.
//
// This is a witness for the tape's derivatives: it takes the statistics from x itself, in float64, and shares no code
// with the kernels. All results are float64. Derivations: autograd/ops/layer_norm.md, autograd/ops/rms_norm.md.
class NormJacobian {
 public:
  Index rows() const { return static_cast<Index>(blocks_.size()); }
  Index row_length() const { return static_cast<Index>(gamma_.size()); }
  Index size() const { return rows() * row_length(); }  // N

  // The block of one row. Throws Error(argument) on a row out of range.
  NormJacobian row(Index index) const;

  // J v and J^T u, for v and u shaped like x, or with a leading axis of K of them. Throws Error(argument) on another
  // shape.
  Tensor apply(const Tensor& tangent) const;
  Tensor apply_transposed(const Tensor& cotangent) const;

  Tensor dense() const;  // [N, N]
  double trace() const;

  // Of all rows together, N of them, in descending order. In closed form where gamma is constant [LN.6] [RMS.6];
  // otherwise from a singular value decomposition of each row's [H, H] block.
  Tensor singular_values() const;
  double spectral_norm() const;  // the largest of them; 0 if there are none
  // The same for the eigenvalues, which have a closed form for constant gamma only. Throws Error(argument) otherwise.
  Tensor eigenvalues() const;

 private:
  friend NormJacobian layer_norm_jacobian(const Tensor& x, const Tensor& gamma, double eps);
  friend NormJacobian rms_norm_jacobian(const Tensor& x, const Tensor& gamma, double eps);
  friend NormJacobian identity_jacobian(const Tensor& x);
  friend Tensor matmul(const NormJacobian& norm, const Tensor& matrix);
  friend Tensor matmul(const Tensor& matrix, const NormJacobian& norm);

  // A direction that the bracket takes out, and the part of it that stays: d d^T / H maps d to (1 - kept) d.
  struct Direction {
    std::vector<double> vector;  // [H]
    double kept;
  };
  struct Block {
    double s;
    std::vector<Direction> directions;  // orthogonal to each other
  };

  NormJacobian() = default;
  NormJacobian(const char* norm, const Tensor& x, const Tensor& gamma, double eps, bool centred);
  static Block block_of(const double* x, Index width, double eps, bool centred);

  bool constant_gamma() const;
  double entry(const Block& block, std::size_t i, std::size_t j) const;
  Tensor dense(const Block& block) const;  // [H, H]
  // The bracket over s, applied to `columns` vectors that stand side by side: v and result [H, columns].
  void apply_bracket(const Block& block, const double* v, Index columns, double* result) const;
  template <class BlockMap>
  Tensor map_rows(const char* what, const Tensor& vectors, BlockMap&& map) const;
  // Of (1/s) times the bracket, in no order.
  std::vector<double> bracket_eigenvalues(const Block& block) const;

  Shape shape_;  // x's
  std::vector<double> gamma_;
  std::vector<Block> blocks_;
};

// x [..., H] in any floating-point dtype; gamma [H] may be undefined, which means ones. Throw Error(argument) on shapes
// that don't fit, a negative or NaN eps, and where there is no derivative: eps = 0 with a row that is constant
// (LayerNorm) or zero (RMSNorm).
NormJacobian layer_norm_jacobian(const Tensor& x, const Tensor& gamma, double eps);
NormJacobian rms_norm_jacobian(const Tensor& x, const Tensor& gamma, double eps);
// What stands where a norm was left out.
NormJacobian identity_jacobian(const Tensor& x);

// J M and M J for a dense matrix M, [N, columns] and [rows, N], without forming J.
Tensor matmul(const NormJacobian& norm, const Tensor& matrix);
Tensor matmul(const Tensor& matrix, const NormJacobian& norm);

}  // namespace jnorm
