#pragma once

#include <functional>
#include <string>
#include <vector>

#include <jnorm/core/tensor.hpp>
#include <jnorm/layers/transformer.hpp>

namespace jnorm {

// What the residual stack of a model looks like to a derivative, at one input: the stack of decoders, if there are two.
// N is how many numbers x_l has, T dim, or 2 T dim for a placement with two streams; every Jacobian is [N, N]; ||.||_F
// is the Frobenius norm.

struct JacobianMeasures {
  double identity_distance;  // ||J - I||_F / sqrt(N)
  double sigma_max;          // the largest and the smallest singular value
  double sigma_min;
  // ||J - C||_F / ||J||_F, where J is the tape's and C was put together from its parts: rounding, or a fault. Where a
  // norm takes away nearly all of the stream's directions, as over one or two features, J is much smaller than the
  // terms that make it up; the error is relative to those then.
  double decomposition_error;
};

// x -> y through one residual sublayer. Its parts are the branch F and the norms N; C is what the placement says:
// I + J_F J_N for x + F(N(x)), J_N (I + J_F) for N(x + F(x)), ... J_F is the tape's, J_N the closed form.
struct SublayerReport {
  std::string name;  // "attention"
  JacobianMeasures jacobian;
  double branch_norm;     // ||J_F||_F / sqrt(N)
  double norm_sigma_max;  // of the first norm's J_N over all T rows; 1 and 1 where there is none
  double norm_sigma_min;
};

// x_l -> x_{l+1} through one block; C is the product of its sublayers' C (and what a sublayer adds of x_l itself).
struct LayerReport {
  Index layer;  // l
  JacobianMeasures jacobian;
  std::vector<SublayerReport> sublayers;  // in the order of computation
};

// x_0 -> x_L through all blocks: P = J_L ... J_1.
struct ProductReport {
  double trace_over_n;
  double median_sigma;         // of P's singular values
  double effective_rank;       // (sum s^2)^2 / sum s^4 of them
  double decomposition_error;  // of the product of the blocks' Jacobians against the tape's d x_L / d x_0
};

struct ProbeReport {
  std::vector<LayerReport> layers;
  ProductReport product;
  // At x_0, ..., x_L. With targets: the norm of the loss's gradient. Without: the root mean square of ||J^T u|| over
  // all cotangents u of x_L with norm 1, J = d x_L / d x_l, which is ||J||_F / sqrt(N); at x_L it is 1.
  std::vector<double> gradient_norms;
  std::vector<double> mean_squares;  // ||x_l||^2 / N at x_0, ..., x_L

  double largest_decomposition_error() const;
};

// In float64 the parts agree with the whole to this; the errors are rounding, about 1e-15 for each product.
inline constexpr double kDecompositionTolerance = 1e-10;

struct ProbeOptions {
  // The input is the model's embedding of `tokens` [1, T], or x_0 [1, T, N / T] as it stands, or else drawn:
  // x_0 ~ N(0, 1) from a generator of its own, and normalized once where the placement normalizes the residual stream.
  Tensor tokens = {};
  Tensor source = {};   // [1, S], with tokens only: what an encoder reads; otherwise its output is drawn
  Tensor targets = {};  // [1, T], with tokens only: what the loss is the cross-entropy of
  Tensor x0 = {};
  Index context = 0;  // T of a drawn x_0; 0: the model's context
  std::uint64_t seed = 1;
  DType dtype = DType::float64;                   // of all arithmetic
  std::function<void(Index done)> on_layer = {};  // called when a layer is measured: 1, ..., L of them
};

// Measures a copy of the model in evaluation mode; the model, its gradients and its generators stay as they are. Time
// grows with N^3 for each sublayer. Throws Error(argument) on an input that doesn't fit, and Error(non_finite) where
// the stack's values aren't finite.
ProbeReport probe(const Transformer& model, const ProbeOptions& options = {});

}  // namespace jnorm
