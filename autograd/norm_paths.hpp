#pragma once

// The backward pass of a norm taken apart: on which paths a cotangent reaches the input, and what each one brings. For
// lessons and tests; training runs the fused kernels. Derivations: autograd/ops/layer_norm.md,
// autograd/ops/rms_norm.md.

#include <string_view>
#include <vector>

#include <jnorm/core/tensor.hpp>

namespace jnorm {

// A line of a derivation, with the numbers that it has for one row.
struct DerivationStep {
  const char* tag;      // "[LN.2a]", as the derivation's page calls it
  const char* symbol;   // "x_hat"; of a path what it goes through, "through the mean"
  const char* formula;  // "(x - m) / s"
  Tensor value;         // [H] or a scalar []
};

struct NormPaths {
  std::vector<DerivationStep> forward;    // from x to y; beta is left out, no derivative but its own sees it
  std::vector<DerivationStep> cotangent;  // what comes back to x_hat
  std::vector<DerivationStep> paths;      // from x_hat to x: their sum is dx
  std::vector<DerivationStep> gradients;  // dx, dgamma and, of LayerNorm, dbeta

  // Throws Error(argument) if there is no step with this symbol.
  const Tensor& value(std::string_view symbol) const;
};

// For one row x [H] with gamma [H] and the cotangent dy [H] of y; all results are float64. Throw Error(argument) on
// other shapes, a negative or NaN eps, and where s (r) isn't positive and finite: there is no derivative then.
NormPaths layer_norm_backward_paths(const Tensor& x, const Tensor& gamma, const Tensor& dy, double eps);
NormPaths rms_norm_backward_paths(const Tensor& x, const Tensor& gamma, const Tensor& dy, double eps);

}  // namespace jnorm
