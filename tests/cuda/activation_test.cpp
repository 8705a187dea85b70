#include "cuda/device_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

constexpr std::array kActivations{Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu};

Tensor activation(Activation op, const Tensor& x) {
  const Tensor y = garbage_on_device(x.shape(), x.dtype());
  device_kernels().activation(op, on_device(x), y);
  return y.to(Device::cpu());
}
Tensor gradient(Activation op, const Tensor& dy, const Tensor& x) {
  const Tensor dx = garbage_on_device(dy.shape(), x.dtype());
  device_kernels().activation_dx(op, on_device(dy), on_device(x), {dx});
  return dx.to(Device::cpu());
}

// The same on the CPU, in float64.
Tensor right_activation(Activation op, const Tensor& x) {
  const Tensor wide = x.to(DType::float64), y = garbage_like(wide);
  cpu().activation(op, wide, y);
  return y;
}
Tensor right_gradient(Activation op, const Tensor& dy, const Tensor& x) {
  const Tensor wide = dy.to(DType::float64), dx = garbage_like(wide);
  cpu().activation_dx(op, wide, x.to(DType::float64), {dx});
  return dx;
}

}  // namespace

TEST_CASE("cuda activations: values and gradients are float64's") {
  for (const DType dtype : kFloatingTypes) {
    const Tensor x = random({1037}, dtype, 1), dy = random({1037}, dtype, 2);
    for (const Activation op : kActivations) {
      CAPTURE(static_cast<int>(op));
      CHECK(distance(activation(op, x), right_activation(op, x)) < a_few_roundings(dtype));
      CHECK(distance(gradient(op, dy, x), right_gradient(op, dy, x)) < a_few_roundings(dtype));
    }
  }
}

TEST_CASE("cuda activations: the negative tails keep their digits") {
  const auto at = [](Activation op, double x) { return activation(op, tensor({x})).item(); };
  // The exponent is some 20 here, which multiplies the relative error of its rounding.
  const double bound = 40 * machine_epsilon(DType::float32);
  CHECK(relative_error(at(Activation::gelu_tanh, -6), -8.4396467e-11) < bound);
  CHECK(relative_error(at(Activation::gelu_tanh, -5), -2.2917962e-7) < bound);
  CHECK(relative_error(at(Activation::gelu, -6), -5.9195259e-9) < bound);
  CHECK(relative_error(at(Activation::gelu, -5), -1.4332579e-6) < bound);
}

TEST_CASE("cuda activations: large numbers neither overflow nor become NaN") {
  for (const DType dtype : kFloatingTypes) {
    for (const Activation op : kActivations) {
      const Tensor x = tensor({256, -256, 60000, kInfinity}, dtype), dy = full({4}, 1.0, dtype);
      CHECK(distance(activation(op, x), {256, 0, x.at({2}), kInfinity}) < 1e-100);
      CHECK(distance(gradient(op, dy, x), {1, 0, 1, 1}) < 1e-100);
    }
  }
}

TEST_CASE("cuda activations: NaN stays NaN, in x and in dy") {
  for (const Activation op : kActivations) {
    const Tensor x = tensor({kNaN, 1, -1000}), dy = tensor({1, kNaN, kNaN});
    CHECK(std::isnan(activation(op, x).at({0})));
    CHECK(distance(gradient(op, dy, x), {kNaN, kNaN, kNaN}) == 0.0);
  }
}

TEST_CASE("cuda activations: x repeats along the copies of a cotangent") {
  for (const Index size : {5, 16}) {
    const Tensor x = random({size}, DType::float32, 1), dy = random({3, size}, DType::float32, 2);
    CHECK(distance(gradient(Activation::silu, dy, x), right_gradient(Activation::silu, dy, x)) <
          a_few_roundings(DType::float32));
  }
}

TEST_CASE("cuda activations: a gradient is added to what is there, and rounded once") {
  for (const DType dtype : kFloatingTypes) {
    const Tensor x = random({37}, dtype, 1), dy = random({37}, dtype, 2), before = random({37}, dtype, 3);
    const Tensor right = before.to(DType::float64).clone(), dx = on_device(before);
    cpu().activation_dx(Activation::gelu, dy.to(DType::float64), x.to(DType::float64), {right, true});
    device_kernels().activation_dx(Activation::gelu, on_device(dy), on_device(x), {dx, true});
    CHECK(distance(dx, right) < a_few_roundings(dtype));
  }
}
