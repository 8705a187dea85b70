#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <jnorm/autograd/ops.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("softmax: sums to 1 over the chosen axis") {
  Tape tape;
  // Over axis 1 the pairs (0, ln 3) and (0, 0) meet; over axis 2 they don't.
  const double ln3 = std::log(3.0);
  const Var x = tape.variable(tensor({1, 2, 2}, std::vector<double>{0, 0, ln3, 0}, DType::float64));
  CHECK(softmax(x, 1).value() == close({0.25, 0.5, 0.75, 0.5}, 1e-15));
  CHECK(softmax(x, -2).value() == close({0.25, 0.5, 0.75, 0.5}, 1e-15));
  CHECK(softmax(x, 2).value() == close({0.5, 0.5, 0.75, 0.25}, 1e-15));
  CHECK(softmax(x).value() == close({0.5, 0.5, 0.75, 0.25}, 1e-15));
  CHECK(softmax(x, 0).value() == close({1, 1, 1, 1}, 0.0));
  CHECK(log_softmax(x, 1).value() == close({-1.386294, -0.693147, -0.287682, -0.693147}));
}

TEST_CASE("softmax: the gradient over an axis goes back along that axis") {
  Tape tape;
  const Var x = tape.variable(tensor({{0, 1}, {0, 2}}, DType::float64));
  const Var y = softmax(x, 0);
  tape.backward(y, {.cotangent = tensor({{1, 0}, {0, 0}}, DType::float64)});
  CHECK(x.gradient() == close({0.25, 0, -0.25, 0}, 1e-15));
}

TEST_CASE("log_softmax: where exp underflows, the logarithm doesn't") {
  Tape tape;
  for (const DType dtype : {DType::float32, DType::float64}) {
    CHECK(log_softmax(tape.variable(tensor({0, -200}, dtype))).value() == close({0, -200}, 0.0));
    CHECK(log_softmax(tape.variable(tensor({-200, -200, -200, -200}, dtype))).value() ==
          close({-1.386294, -1.386294, -1.386294, -1.386294}));
  }
}

TEST_CASE("softmax: a row of nothing but -inf is NaN, as 0/0 is") {
  Tape tape;
  const Var x = tape.variable(tensor({-kInfinity, -kInfinity}));
  for (const double value : softmax(x).value().values()) CHECK(std::isnan(value));
  for (const double value : log_softmax(x).value().values()) CHECK(std::isnan(value));
}

TEST_CASE("softmax: one element of -inf has probability 0 and gradient 0") {
  Tape tape;
  const Var x = tape.variable(tensor({0, -kInfinity, 0}, DType::float64));
  const Var y = softmax(x);
  CHECK(y.value().values() == std::vector<double>{0.5, 0, 0.5});
  tape.backward(y, {.cotangent = tensor({1, 5, 2}, DType::float64)});
  CHECK(x.gradient().values() == std::vector<double>{-0.25, 0, 0.25});
}

TEST_CASE("softmax: an axis out of range is refused with the shape, and a scalar has none") {
  Tape tape;
  const Var x = tape.variable(zeros({2, 3}));
  CHECK_THROWS_WITH_AS(softmax(x, 2), doctest::Contains("softmax: axis 2 is out of range for shape [2, 3]"), Error);
  CHECK_THROWS_WITH_AS(log_softmax(x, -3), doctest::Contains("log_softmax: axis -3 is out of range"), Error);
  CHECK_THROWS_WITH_AS(softmax(tape.variable(zeros({}))), doctest::Contains("at least one axis, got a scalar"), Error);
}

TEST_CASE("softmax: an axis of no elements, and other axes of none, are no error") {
  Tape tape;
  CHECK(softmax(tape.variable(zeros({0, 3})), 0).shape() == Shape{0, 3});
  CHECK(softmax(tape.variable(zeros({0, 3})), 1).shape() == Shape{0, 3});
  CHECK(log_softmax(tape.variable(zeros({3, 0, 2})), 0).shape() == Shape{3, 0, 2});
}
