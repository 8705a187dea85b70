#pragma once

#include <utility>
#include <vector>

#include <jnorm/autograd/norm_block.hpp>
#include <jnorm/core/tensor.hpp>

namespace jnorm {

// The Jacobian of a norm in closed form: blocks that are diagonal plus rank one or two (norm_block.hpp), and zero
// outside. A block is a row for LayerNorm, RMSNorm and ScaleNorm, a group of a sample for GroupNorm, a channel, across
// all samples, for BatchNorm. With N elements in x it is [N, N], and never formed unless dense() is asked for.
//
// This is a witness for the tape's derivatives: it takes the statistics from x itself, in float64, and shares no code
// with the kernels. All results are float64. Derivations: autograd/ops/layer_norm.md and its neighbours.
class NormJacobian {
 public:
  // The blocks' elements must be elements of x's shape, each in one block at most.
  NormJacobian(const Shape& shape, std::vector<NormBlock> blocks) : shape_(shape), blocks_(std::move(blocks)) {}

  Index size() const { return shape_.size(); }  // N
  // Elements that stand in no block have zero rows and columns.
  Index block_count() const { return static_cast<Index>(blocks_.size()); }
  // One block as the Jacobian of its own elements, [m]. Throws Error(argument) on an index out of range.
  NormJacobian block(Index index) const;

  // J v and J^T u, for v and u shaped like x, or with a leading axis of K of them. Throws Error(argument) on another
  // shape.
  Tensor apply(const Tensor& tangent) const;
  Tensor apply_transposed(const Tensor& cotangent) const;

  Tensor dense() const;  // [N, N]
  double trace() const;
  double frobenius_norm() const;
  double distance_to_identity() const;  // ||J - I||_F / sqrt(N); 0 if N is 0
  // log |det J|, the sum of the logarithms of the singular values; minus infinity if one is 0.
  double log_volume() const;

  // Of all blocks together, N of them, in descending order. In closed form where a block's gamma is constant [LN.6],
  // from its secular equation otherwise: to a few units in the last place, tiny ones to 1e-15 of their block's largest.
  Tensor singular_values() const;
  double spectral_norm() const;  // the largest of them; 0 if there are none
  // What none of them exceeds: the greatest |gamma| / s, of which the projections only take something away.
  double bound() const;
  // The same for the eigenvalues, which are real whatever the signs of gamma are: core/secular_equation.md.
  Tensor eigenvalues() const;

  // How many singular values are greater than `tolerance` times the largest, and how many aren't. Throw Error(argument)
  // unless 0 <= tolerance < 1.
  static constexpr double kRankTolerance = 1e-12;
  Index rank(double tolerance = kRankTolerance) const;
  Index null_space_dimension(double tolerance = kRankTolerance) const { return size() - rank(tolerance); }

 private:
  friend Tensor matmul(const NormJacobian& norm, const Tensor& matrix);
  friend Tensor matmul(const Tensor& matrix, const NormJacobian& norm);

  template <class BlockMap>
  Tensor map_blocks(const char* what, const Tensor& vectors, BlockMap&& map) const;
  Index elements_without_block() const;

  Shape shape_;  // x's
  std::vector<NormBlock> blocks_;
};

// x has any floating-point dtype. gamma may be undefined, which means ones. All throw Error(argument) on shapes that
// don't fit, a negative, NaN or infinite eps, and where there is no derivative: eps = 0 and nothing but equal elements
// (RMSNorm: zeros) to normalize. They throw Error(non_finite) on a NaN or infinity elsewhere.

// Over the last axis: x [..., H], gamma [H]. layer_norm.md, rms_norm.md.
NormJacobian layer_norm_jacobian(const Tensor& x, const Tensor& gamma, double eps);
NormJacobian rms_norm_jacobian(const Tensor& x, const Tensor& gamma, double eps);
// g x / sqrt(sum(x^2) + eps) over the last axis. With eps = 0 a zero row has the zero Jacobian. scale_norm.md.
NormJacobian scale_norm_jacobian(const Tensor& x, double g, double eps);
// x [N, C, ...], gamma [C]: over the C / groups channels of a group and all trailing axes, sample by sample.
// group_norm.md.
NormJacobian group_norm_jacobian(const Tensor& x, Index groups, const Tensor& gamma, double eps);
// x [N, C, ...], gamma [C], in training: over the samples and all trailing axes, channel by channel. The mask, [N] or
// [N, 1, ...] with trailing axes of 1 or x's, is nonzero where a position counts; others have zero rows and columns,
// whatever x is there. batch_norm.md.
NormJacobian batch_norm_jacobian(const Tensor& x, const Tensor& gamma, double eps, const Tensor& mask = {});
// In evaluation: diag(gamma / sqrt(running_variance + eps)), with running_variance [C].
NormJacobian batch_norm_evaluation_jacobian(const Tensor& x, const Tensor& gamma, const Tensor& running_variance,
                                            double eps);
// Of gamma tanh(alpha x) + beta: x [..., H], gamma [H]. dynamic_tanh.md.
NormJacobian dynamic_tanh_jacobian(const Tensor& x, double alpha, const Tensor& gamma);
// What stands where a norm was left out.
NormJacobian identity_jacobian(const Tensor& x);

// J M and M J for a dense matrix M, [N, columns] and [rows, N], without forming J.
Tensor matmul(const NormJacobian& norm, const Tensor& matrix);
Tensor matmul(const Tensor& matrix, const NormJacobian& norm);

}  // namespace jnorm
