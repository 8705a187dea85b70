#include <jnorm/layers/clip.hpp>

#include <cmath>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/kernels.hpp>
#include <jnorm/core/operations.hpp>

namespace jnorm {

double clip_gradient_norm(std::span<Parameter* const> parameters, double max_norm) {
  expect(max_norm > 0.0, "clip_gradient_norm: max_norm must be positive, but is {}", max_norm);
  double squares = 0.0;
  for (const Parameter* parameter : parameters) {
    if (!parameter->has_gradient()) continue;
    double of_this = 0.0;
    parameter->gradient().device().kernels().sum_of_squares(parameter->gradient(), of_this);
    squares += of_this;
  }
  const double norm = std::sqrt(squares);
  if (!std::isfinite(norm) || norm <= max_norm) return norm;
  for (Parameter* parameter : parameters) {
    if (!parameter->has_gradient()) continue;
    // Not in place: two gradients may share their storage, which would then be scaled twice.
    Tensor scaled = affine(parameter->gradient(), max_norm / norm, 0.0);
    parameter->clear_gradient();
    parameter->add_gradient(std::move(scaled));
  }
  return norm;
}

}  // namespace jnorm
