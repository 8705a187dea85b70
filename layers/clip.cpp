#include <jnorm/layers/clip.hpp>

#include <cmath>
#include <vector>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/kernels.hpp>
#include <jnorm/core/operations.hpp>

namespace jnorm {

namespace {

std::vector<Tensor> gradients_of(std::span<Parameter* const> parameters) {
  std::vector<Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const Parameter* parameter : parameters) {
    if (parameter->has_gradient()) gradients.push_back(parameter->gradient());
  }
  return gradients;
}

// The gradients give way to others, in gradients_of's order. They aren't changed in place: two of them may share their
// storage, which would then be changed twice.
void replace_gradients(std::span<Parameter* const> parameters, std::span<const Tensor> changed) {
  auto next = changed.begin();
  for (Parameter* parameter : parameters) {
    if (!parameter->has_gradient()) continue;
    parameter->clear_gradient();
    parameter->add_gradient(*next++);
  }
}
template <class Change>
void change_gradients(std::span<Parameter* const> parameters, Change change) {
  std::vector<Tensor> gradients = gradients_of(parameters);
  for (Tensor& gradient : gradients) gradient = change(gradient);
  replace_gradients(parameters, gradients);
}

// The norm of all gradients, [] of float64, on their device.
Tensor norm_of(std::span<const Tensor> gradients) {
  const Device device = gradients.empty() ? Device::cpu() : gradients.front().device();
  Tensor norm = Tensor::uninitialized({}, DType::float64, device);
  device.kernels().global_norm(gradients, norm);
  return norm;
}

void expect_limit(const char* function, double max_norm) {
  expect(max_norm > 0.0, "{}: max_norm must be positive, but is {}", function, max_norm);
}

}  // namespace

double gradient_norm(std::span<Parameter* const> parameters) { return norm_of(gradients_of(parameters)).item(); }

double clip_gradient_norm(std::span<Parameter* const> parameters, double max_norm) {
  expect_limit("clip_gradient_norm", max_norm);
  const double norm = gradient_norm(parameters);
  if (!std::isfinite(norm) || norm <= max_norm) return norm;
  change_gradients(parameters, [&](const Tensor& gradient) { return affine(gradient, max_norm / norm, 0.0); });
  return norm;
}

Tensor queue_clip_gradient_norm(std::span<Parameter* const> parameters, double max_norm) {
  expect_limit("queue_clip_gradient_norm", max_norm);
  const std::vector<Tensor> gradients = gradients_of(parameters);
  const Tensor norm = norm_of(gradients);
  std::vector<Tensor> clipped;
  clipped.reserve(gradients.size());
  for (const Tensor& gradient : gradients) {
    clipped.push_back(Tensor::uninitialized(gradient.shape(), gradient.dtype(), gradient.device()));
  }
  norm.device().kernels().clip_to_norm(gradients, norm, max_norm, clipped);
  replace_gradients(parameters, clipped);
  return norm;
}

void clip_gradient_value(std::span<Parameter* const> parameters, double max_value) {
  expect(max_value > 0.0, "clip_gradient_value: max_value must be positive, but is {}", max_value);
  change_gradients(parameters, [&](const Tensor& gradient) { return clamp(gradient, -max_value, max_value); });
}

}  // namespace jnorm
