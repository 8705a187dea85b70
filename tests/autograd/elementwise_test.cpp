#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include <jnorm/autograd/ops.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double derivative_at(double x, const std::function<Var(const Var&)>& function) {
  Tape tape;
  const Var leaf = tape.variable(tensor({x}, DType::float64));
  tape.backward(function(leaf));
  return leaf.gradient().item();
}

}  // namespace

TEST_CASE("elementwise: at their kink, abs, sign and relu have the derivative 0") {
  CHECK(derivative_at(0.0, [](const Var& x) { return abs(x); }) == 0.0);
  CHECK(derivative_at(0.0, [](const Var& x) { return sign(x); }) == 0.0);
  CHECK(derivative_at(0.0, [](const Var& x) { return relu(x); }) == 0.0);
}

TEST_CASE("elementwise: sqrt has an infinite derivative at 0, so a norm there needs an eps") {
  CHECK(derivative_at(0.0, [](const Var& x) { return sqrt(x); }) == kInfinity);
  CHECK(std::isnan(derivative_at(0.0, [](const Var& x) { return sqrt(square(x)); })));
  CHECK(derivative_at(0.0, [](const Var& x) { return sqrt(square(x) + 1e-12); }) == 0.0);
}

TEST_CASE("elementwise: a NaN cotangent isn't lost where the derivative is 0") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isnan(derivative_at(-1.0, [&](const Var& x) { return relu(x) * nan; })));
  CHECK(std::isnan(derivative_at(1.0, [&](const Var& x) { return sign(x) * nan; })));
}

TEST_CASE("elementwise: at 0 the derivatives of x^0, x^1 and x^2 are 0, 1 and 0") {
  CHECK(derivative_at(0.0, [](const Var& x) { return pow(x, 0.0); }) == 0.0);
  CHECK(derivative_at(0.0, [](const Var& x) { return pow(x, 1.0); }) == 1.0);
  CHECK(derivative_at(0.0, [](const Var& x) { return pow(x, 2.0); }) == 0.0);
}

TEST_CASE("elementwise: 0^p is 1, 0 or infinite, and whole powers keep the sign") {
  const Tensor zero = tensor({0.0}), minus_two = tensor({-2.0});
  CHECK(pow(zero, 0.0).item() == 1.0);
  CHECK(pow(zero, 2.0).item() == 0.0);
  CHECK(pow(zero, -1.0).item() == kInfinity);
  CHECK(pow(minus_two, 3.0).item() == -8.0);
  CHECK(std::isnan(pow(minus_two, 0.5).item()));
}

TEST_CASE("elementwise: at 0^0 and 0^2 both derivatives of a power are finite") {
  for (const double b : {0.0, 2.0}) {
    Tape tape;
    const Var base = tape.variable(tensor({0.0}, DType::float64));
    const Var exponent = tape.variable(tensor({b}, DType::float64));
    tape.backward(pow(base, exponent));
    CHECK(base.gradient().item() == 0.0);
    CHECK(exponent.gradient().item() == 0.0);
  }
}

TEST_CASE("elementwise: differentiating the base's gradient at 0^0 again gives no NaN") {
  Tape tape;
  const Var base = tape.variable(tensor({0.0}, DType::float64));
  const Var exponent = tape.variable(tensor({0.0}, DType::float64));
  const Var gradient = tape.recorded_gradients(sum(pow(base, exponent)), {&base, 1})[0];
  CHECK(std::isfinite(tape.gradients(gradient, {&exponent, 1}, ones({1}, DType::float64))[0].item()));
}

TEST_CASE("elementwise: a power of two operands knows both derivatives") {
  Tape tape;
  const Var base = tape.variable(tensor({2.0, -2.0}, DType::float64));
  const Var exponent = tape.variable(tensor({3.0, 2.0}, DType::float64));
  const Var y = pow(base, exponent);
  tape.backward(sum(y));
  CHECK(y.value() == close({8, 4}));
  CHECK(base.gradient() == close({12, -4}));
  CHECK(exponent.gradient().at({0}) == doctest::Approx(8 * std::log(2.0)));
  CHECK(std::isnan(exponent.gradient().at({1})));  // ln of a negative number
}

TEST_CASE("elementwise: sigmoid and silu neither overflow nor lose their tails") {
  for (const auto& [x, slope] : {std::pair{40.0, 4.248354255291589e-18}, std::pair{-40.0, 4.248354255291589e-18}}) {
    CHECK(derivative_at(x, [](const Var& v) { return sigmoid(v); }) == doctest::Approx(slope));
  }
  CHECK(silu(Tape().variable(tensor({-100.0}, DType::float64))).value().item() ==
        doctest::Approx(-3.720075976020836e-42));
  CHECK(derivative_at(-1000.0, [](const Var& v) { return silu(v); }) == 0.0);
  CHECK(derivative_at(1000.0, [](const Var& v) { return silu(v); }) == 1.0);
}

TEST_CASE("elementwise: int32 is refused in the operation's name") {
  Tape tape;
  const std::vector<std::int32_t> three{3};
  const Var whole = tape.constant(indices({1}, three));
  CHECK_THROWS_WITH_AS(exp(whole), doctest::Contains("exp: expected a floating-point dtype, got int32"), Error);
  CHECK_THROWS_WITH_AS(silu(whole), doctest::Contains("silu: expected a floating-point dtype, got int32"), Error);
  CHECK_THROWS_WITH_AS(whole + whole, doctest::Contains("add: expected a floating-point dtype, got int32"), Error);
  CHECK_THROWS_WITH_AS(pow(whole, 2.0), doctest::Contains("pow: expected a floating-point dtype, got int32"), Error);
  CHECK_THROWS_WITH_AS(tanh(whole.value()), doctest::Contains("tanh: expected a floating-point dtype"), Error);
}
