#include <numbers>

#include "core/kernel_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

constexpr std::array kActivations{Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu};

Tensor activation(Activation op, const Tensor& x) {
  Tensor y = garbage_like(x);
  cpu().activation(op, x, y);
  return y;
}
Tensor derivative(Activation op, const Tensor& x) {
  Tensor dx = garbage_like(x);
  cpu().activation_dx(op, full(x.shape(), 1.0, x.dtype()), x, {dx});
  return dx;
}

struct Gate {
  long double value, slope;
};
Gate exact_gate(Activation op, long double x) {
  if (op == Activation::gelu) {
    const long double pi = std::numbers::pi_v<long double>;
    return {std::erfc(-x / std::sqrt(2.0L)) / 2, std::exp(-x * x / 2) / std::sqrt(2 * pi)};
  }
  if (op == Activation::silu) {
    const long double value = 1 / (1 + std::exp(-x)), rest = 1 / (1 + std::exp(x));
    return {value, value * rest};
  }
  const long double scale = 2 * std::sqrt(2 / std::numbers::pi_v<long double>);
  const long double value = 1 / (1 + std::exp(-scale * (x + 0.044715L * x * x * x)));
  const long double rest = 1 / (1 + std::exp(scale * (x + 0.044715L * x * x * x)));
  return {value, value * rest * scale * (1 + 3 * 0.044715L * x * x)};
}

// From -range to range in small steps that are no round numbers.
Tensor sweep(double range, DType dtype) {
  std::vector<double> values;
  for (double x = -range; x < range; x += 0.00931) values.push_back(x);
  return tensor({static_cast<Index>(values.size())}, values, dtype);
}

// The largest error in units of its bound, which is what some roundings cause: each is eps in the result, and those of
// an exponent of size |x|^2, or of (x + 0.044715 x^3) 1.6, are that much larger.
double error(Activation op, const Tensor& x, const Tensor& got, bool of_derivative) {
  const std::vector<double> xs = x.values(), values = got.values();
  double worst = 0;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const long double at = xs[i], size = std::abs(at);
    const Gate gate = exact_gate(op, at), lower = exact_gate(op, -size);
    const long double exponent = op == Activation::silu   ? size
                                 : op == Activation::gelu ? size * size / 2
                                                          : 1.6L * (size + 0.044715L * size * size * size);
    const long double roundings = (4 + 2 * exponent) * machine_epsilon(x.dtype());
    const long double right = of_derivative ? gate.value + at * gate.slope : at * gate.value;
    const long double terms = of_derivative ? lower.value + size * lower.slope + (at > 0 ? 1 : 0) : std::abs(right);
    if (lower.value < std::numeric_limits<float>::min()) continue;  // 0 in float32
    worst = std::max(worst, static_cast<double>(std::abs(values[i] - right) / (terms * roundings)));
  }
  return worst;
}

}  // namespace

TEST_CASE("relu: the positive part, with a derivative of 0 at 0") {
  const Tensor x = tensor({-2, -0x1p-100, 0, 0x1p-100, 2});
  CHECK(distance(activation(Activation::relu, x), {0, 0, 0, 0x1p-100, 2}) == 0.0);
  CHECK(distance(derivative(Activation::relu, x), {0, 0, 0, 1, 1}) == 0.0);
  CHECK_FALSE(std::signbit(activation(Activation::relu, tensor({-0.0})).item()));
}

TEST_CASE("activations: NaN stays NaN, in x and in dy") {
  for (const Activation op : kActivations) {
    for (const DType dtype : kWideTypes) {
      const Tensor x = tensor({kNaN, 1.0}, dtype);
      CHECK(std::isnan(activation(op, x).at({0})));
      CHECK(std::isnan(derivative(op, x).at({0})));
      const Tensor dx = garbage({3}, dtype);
      cpu().activation_dx(op, tensor({kNaN, kNaN, 1.0}, dtype), tensor({-1.0, 1.0, 1.0}, dtype), {dx});
      CHECK(std::isnan(dx.at({0})));
      CHECK(std::isnan(dx.at({1})));
      CHECK_FALSE(std::isnan(dx.at({2})));
    }
  }
}

TEST_CASE("gelu: the negative tail does not cancel, and the variants are not mixed up") {
  for (const DType dtype : kWideTypes) {
    const double enough = dtype == DType::float32 ? 1e-5 : 1e-7;  // in float32 (4 + x^2) eps; the values have 8 digits
    const Tensor x = tensor({-6, -5, -4}, dtype);
    const Tensor with_tanh = activation(Activation::gelu_tanh, x), with_erf = activation(Activation::gelu, x);
    CHECK(relative_error(with_tanh.at({0}), -8.4396467e-11) < enough);
    CHECK(relative_error(with_tanh.at({1}), -2.2917962e-7) < enough);
    CHECK(relative_error(with_tanh.at({2}), -7.0245948e-5) < enough);
    CHECK(relative_error(with_erf.at({0}), -5.9195259e-9) < enough);
    CHECK(relative_error(with_erf.at({1}), -1.4332579e-6) < enough);
    CHECK(relative_error(with_erf.at({2}), -1.2668497e-4) < enough);
  }
}

TEST_CASE("gelu and silu: values and derivatives are exact up to some roundings, tail included") {
  for (const Activation op : {Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    for (const DType dtype : kWideTypes) {
      CAPTURE(op);
      CAPTURE(dtype);
      const Tensor x = sweep(dtype == DType::float32 ? 12 : 14, dtype);
      CHECK(error(op, x, activation(op, x), false) < 1.0);
      CHECK(error(op, x, derivative(op, x), true) < 1.0);
    }
  }
}

TEST_CASE("gelu: far from zero it is x or 0, with the derivative 1 or 0") {
  for (const Activation op : {Activation::gelu, Activation::gelu_tanh}) {
    for (const DType dtype : kWideTypes) {
      const Tensor x = tensor({256, 1e30, kInfinity, -256, -1e30, -kInfinity}, dtype);
      CHECK(distance(activation(op, x), {256, x.at({1}), kInfinity, 0, 0, 0}) == 0.0);
      CHECK(distance(derivative(op, x), {1, 1, 1, 0, 0, 0}) == 0.0);
    }
  }
}

TEST_CASE("activations: every length") {
  for (const Activation op : kActivations) {
    for (const DType dtype : kWideTypes) {
      const Tensor x = random({200}, dtype, 1), y = activation(op, x), slope = derivative(op, x);
      for (const Index length : kRowLengths) {
        const std::vector<double> values = x.values();
        const Tensor start = tensor({length}, std::span(values).first(static_cast<std::size_t>(length)), dtype);
        const auto first = [length](const Tensor& t) {
          const std::vector<double> all = t.values();
          return std::vector<double>(all.begin(), all.begin() + length);
        };
        CHECK(distance(activation(op, start), first(y)) == 0.0);
        CHECK(distance(derivative(op, start), first(slope)) == 0.0);
      }
    }
  }
}

TEST_CASE("activations: several cotangents at once, added or written") {
  for (const Activation op : kActivations) {
    const DType dtype = DType::float64;
    const Tensor x = random({5, 17}, dtype, 1), dy = random({3, 5, 17}, dtype, 2), dx = garbage_like(dy);
    cpu().activation_dx(op, dy, x, {dx});
    const Tensor slope = derivative(op, x);
    std::vector<double> right = dy.values(), more;
    for (std::size_t i = 0; i < right.size(); ++i) right[i] *= slope.values()[i % 85];
    CHECK(distance(dx, right) < tolerance(dtype));
    const Tensor sum = ones({3, 5, 17}, dtype);
    cpu().activation_dx(op, dy, x, {sum, true});
    for (double& value : right) value += 1.0;
    CHECK(distance(sum, right) < tolerance(dtype));
    cpu().activation_dx(op, dy, x, {});  // nobody wants it
  }
}

TEST_CASE("activations: nothing in, nothing out") {
  for (const Activation op : kActivations) {
    CHECK(activation(op, zeros({0, 3})).size() == 0);
    CHECK(derivative(op, zeros({0, 3})).size() == 0);
  }
}

TEST_CASE("activations: the cotangent is not written, and int32 is refused by name") {
  const Tensor x = random({40}, DType::float32, 1), dy = random({40}, DType::float32, 2), before = dy.clone();
  cpu().activation_dx(Activation::gelu, dy, x, {garbage_like(x)});
  CHECK(identical(dy, before));
  CHECK_THROWS_WITH_AS(activation(Activation::relu, zeros({2}, DType::int32)), doctest::Contains("int32"), Error);
}
