#include <cmath>

#include "autograd/norm_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

TEST_CASE("dynamic_tanh: value and gradients of one element [DYT.1] [DYT.2] [DYT.3]") {
  Tape tape;
  const auto one = [&](double value, const Shape& shape) { return tape.variable(full(shape, value, DType::float64)); };
  const Var xs[] = {one(1.0, {1, 1}), one(0.5, {}), one(2.0, {1}), one(10.0, {1})};
  const Var y = dynamic_tanh(xs[0], xs[1], xs[2], xs[3]);
  const std::vector<Tensor> gradients = tape.gradients(y, xs, full({1, 1}, 3.0, DType::float64));
  CHECK(y.value() == close({10.924234}));
  CHECK(gradients[0] == close({2.359343}));
  CHECK(gradients[1] == close({4.718686}));
  CHECK(gradients[2] == close({1.386351}));
  CHECK(gradients[3] == close({3}, 0.0));
}

TEST_CASE("dynamic_tanh: the slope far out is small, not 0") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    Tape tape;
    const Var x = tape.variable(tensor({{20, -20}}, dtype));
    const Var y = dynamic_tanh(x, tape.variable(ones({}, dtype)));
    const Tensor dx = tape.gradients(y, {&x, 1}, ones({1, 2}, dtype))[0];
    CHECK(y.value() == close({1, -1}, 1e-15));
    for (const double slope : dx.values()) CHECK(slope == doctest::Approx(1.69934e-17).epsilon(1e-5));
  }
}

TEST_CASE("dynamic_tanh: where it is saturated, alpha's tangent is lost and doesn't become NaN") {
  Tape tape;
  const Var alpha = tape.variable(ones({}, DType::float64));
  const Var y = dynamic_tanh(tape.constant(tensor({{1000, -1000}}, DType::float64)), alpha);
  CHECK(tape.push_forward(y, alpha, ones({}, DType::float64)) == close({0, 0}, 0.0));
}

TEST_CASE("dynamic_tanh: infinity saturates, and NaN is not hidden") {
  Tape tape;
  const double infinity = std::numeric_limits<double>::infinity();
  const Var x = tape.variable(tensor({{infinity, -infinity, std::nan("")}}));
  const Var y = dynamic_tanh(x, tape.variable(full({}, 0.5)));
  const Tensor dx = tape.gradients(y, {&x, 1}, ones({1, 3}))[0];
  CHECK(y.value().at({0, 0}) == 1.0);
  CHECK(y.value().at({0, 1}) == -1.0);
  CHECK(std::isnan(y.value().at({0, 2})));
  CHECK(dx.at({0, 0}) == 0.0);
  CHECK(std::isnan(dx.at({0, 2})));
}

TEST_CASE("dynamic_tanh: alpha's gradient sums over rows and features") {
  Tape tape;
  const Var x = tape.variable(tensor({{1, 2}, {3, 4}}, DType::float64));
  const Var alpha = tape.variable(zeros({1}, DType::float64));  // slope 1 everywhere: dalpha = sum of x
  CHECK(tape.gradients(dynamic_tanh(x, alpha), {&alpha, 1}, ones({2, 2}, DType::float64))[0] == close({10}, 0.0));
}

TEST_CASE("dynamic_tanh: its recorded gradient is differentiated, with and without parameters") {
  check_recorded_gradients(
      [](const Var& x, const Var& gamma, const Var& beta) {
        return dynamic_tanh(x, x.tape().constant(full({}, 0.7, DType::float64)), gamma, beta);
      },
      {2, 4}, {4});
}

TEST_CASE("dynamic_tanh: the cotangent is not written") {
  check_cotangent_untouched([](const Var& x) { return dynamic_tanh(x, x.tape().constant(ones({}, DType::float64))); },
                            {3, 5});
}

TEST_CASE("dynamic_tanh: bad arguments are refused") {
  Tape tape;
  const Var x = tape.variable(ones({2, 4})), alpha = tape.variable(ones({}));
  CHECK_THROWS_WITH_AS(dynamic_tanh(x, {}), doctest::Contains("dynamic_tanh: alpha is undefined"), Error);
  CHECK_THROWS_WITH_AS(dynamic_tanh(x, tape.variable(ones({4}))),
                       doctest::Contains("dynamic_tanh: alpha must be one number, [] or [1], got [4]"), Error);
  CHECK_THROWS_WITH_AS(dynamic_tanh(x, alpha, tape.variable(ones({3}))),
                       doctest::Contains("dynamic_tanh: the last axis of x is 4, but gamma has 3"), Error);
  CHECK_THROWS_WITH_AS(dynamic_tanh(x, alpha, {}, tape.variable(ones({5}))),
                       doctest::Contains("dynamic_tanh: the last axis of x is 4, but beta has 5"), Error);
}
