#include <jnorm/autograd/parameter.hpp>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/kernels.hpp>

namespace jnorm {

void Parameter::set_value(Tensor value) {
  expect(value.shape() == value_.shape(), "parameter {}: its shape is {}, got a value of shape {}", path_,
         value_.shape(), value.shape());
  value_ = std::move(value);
}

const Tensor& Parameter::gradient() const {
  if (!has_gradient()) {
    fail(ErrorKind::state, "parameter {}: its gradient isn't computed; call tape.backward first", path_);
  }
  return gradient_;
}

void Parameter::add_gradient(Tensor gradient) {
  expect(gradient.shape() == value_.shape(), "parameter {}: its shape is {}, got a gradient of shape {}", path_,
         value_.shape(), gradient.shape());
  if (!gradient_.defined()) {
    gradient_ = std::move(gradient);
    return;
  }
  if (!gradient_.unique()) gradient_ = gradient_.clone();  // somebody holds it: theirs must not change
  gradient_.device().kernels().accumulate(gradient, 1.0, gradient_);
}

}  // namespace jnorm
