#include <jnorm/layers/clip.hpp>

#include <algorithm>
#include <cmath>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/kernels.hpp>
#include <jnorm/core/operations.hpp>

namespace jnorm {

namespace {

double sum_of_squares(const Tensor& x) {
  double result = 0.0;
  x.device().kernels().sum_of_squares(x, result);
  return result;
}

// Each gradient gives way to change(gradient). Not in place: two gradients may share their storage, which would then be
// changed twice.
template <class Change>
void replace_gradients(std::span<Parameter* const> parameters, Change change) {
  for (Parameter* parameter : parameters) {
    if (!parameter->has_gradient()) continue;
    Tensor changed = change(parameter->gradient());
    parameter->clear_gradient();
    parameter->add_gradient(std::move(changed));
  }
}

// For squares beyond float64: the largest element m is taken out, m sqrt(sum((g / m)^2)).
double scaled_norm(std::span<Parameter* const> parameters) {
  double largest = 0.0;
  for (const Parameter* parameter : parameters) {
    if (!parameter->has_gradient()) continue;
    for (const double value : parameter->gradient().values()) {
      if (!std::isfinite(value)) return std::fabs(value);
      largest = std::max(largest, std::fabs(value));
    }
  }
  double squares = 0.0;
  for (const Parameter* parameter : parameters) {
    if (parameter->has_gradient()) squares += sum_of_squares(affine(parameter->gradient(), 1.0 / largest, 0.0));
  }
  return largest * std::sqrt(squares);
}

}  // namespace

double gradient_norm(std::span<Parameter* const> parameters) {
  double squares = 0.0;
  for (const Parameter* parameter : parameters) {
    if (parameter->has_gradient()) squares += sum_of_squares(parameter->gradient());
  }
  return std::isfinite(squares) ? std::sqrt(squares) : scaled_norm(parameters);
}

double clip_gradient_norm(std::span<Parameter* const> parameters, double max_norm) {
  expect(max_norm > 0.0, "clip_gradient_norm: max_norm must be positive, but is {}", max_norm);
  const double norm = gradient_norm(parameters);
  if (!std::isfinite(norm) || norm <= max_norm) return norm;
  replace_gradients(parameters, [&](const Tensor& gradient) { return affine(gradient, max_norm / norm, 0.0); });
  return norm;
}

void clip_gradient_value(std::span<Parameter* const> parameters, double max_value) {
  expect(max_value > 0.0, "clip_gradient_value: max_value must be positive, but is {}", max_value);
  replace_gradients(parameters, [&](const Tensor& gradient) { return clamp(gradient, -max_value, max_value); });
}

}  // namespace jnorm
