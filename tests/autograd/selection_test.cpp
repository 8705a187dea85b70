#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <jnorm/autograd/ops.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("selection: at a tie each operand of a maximum gets half of the gradient") {
  Tape tape;
  const Var a = tape.variable(tensor({1, 2, 3})), b = tape.variable(tensor({3, 2, 1}));
  tape.backward(sum(maximum(a, b) * tensor({2, 4, 8})));
  CHECK(a.gradient() == close({0, 2, 8}));
  CHECK(b.gradient() == close({2, 2, 0}));
}

TEST_CASE("selection: at a tie each operand of a minimum gets half of the gradient") {
  Tape tape;
  const Var a = tape.variable(tensor({1, 2, 3})), b = tape.variable(tensor({3, 2, 1}));
  tape.backward(sum(minimum(a, b) * tensor({2, 4, 8})));
  CHECK(a.gradient() == close({2, 2, 0}));
  CHECK(b.gradient() == close({0, 2, 8}));
}

TEST_CASE("selection: maximum of x and x has the gradient of x") {
  Tape tape;
  const Var x = tape.variable(tensor({5}));
  tape.backward(maximum(x, x));
  CHECK(x.gradient().item() == 1.0);
}

TEST_CASE("selection: NaN in either operand, or in clamp's, isn't turned into the bound") {
  Tape tape;
  const Var nan = tape.variable(tensor({kNaN})), one = tape.variable(tensor({1}));
  CHECK(std::isnan(maximum(nan, one).item()));
  CHECK(std::isnan(maximum(one, nan).item()));
  CHECK(std::isnan(minimum(nan, one).item()));
  CHECK(std::isnan(minimum(one, nan).item()));
  CHECK(std::isnan(clamp(nan, 0.0).item()));
}

TEST_CASE("selection: clamp passes the gradient inside the closed interval") {
  Tape tape;
  const Var x = tape.variable(tensor({-2, -1, 0, 1, 2}));
  const Var y = clamp(x, -1.0, 1.0);
  tape.backward(sum(y));
  CHECK(y.value() == close({-1, -1, 0, 1, 1}));
  CHECK(x.gradient() == close({0, 1, 1, 1, 0}));
}

TEST_CASE("selection: either bound of clamp may be left out") {
  Tape tape;
  const Var x = tape.variable(tensor({-2, 2}));
  CHECK(clamp(x, 0.0).value() == close({0, 2}));
  CHECK(clamp(x, {}, 0.0).value() == close({-2, 0}));
}

TEST_CASE("selection: bounds of clamp that cross or are NaN are refused") {
  Tape tape;
  const Var x = tape.variable(tensor({1}));
  CHECK_THROWS_WITH_AS(clamp(x, 2.0, 1.0), doctest::Contains("low <= high, got 2 and 1"), Error);
  CHECK_THROWS_WITH_AS(clamp(x, kNaN, 1.0), doctest::Contains("low <= high, got nan and 1"), Error);
}

TEST_CASE("selection: where takes NaN and infinity of the other branch into neither value nor gradient") {
  Tape tape;
  const Var x = tape.variable(tensor({kNaN, 2, kInfinity, 4}));
  const std::vector<std::int32_t> some{0, 1, 0, 1};
  const Var y = where(indices({4}, some), x * 3.0, 7.0);
  tape.backward(sum(y));
  CHECK(y.value() == close({7, 6, 7, 12}));
  CHECK(x.gradient() == close({0, 3, 0, 3}));
}

TEST_CASE("selection: a NaN cotangent stays on its own side of where") {
  Tape tape;
  const Var a = tape.variable(tensor({1, 2})), b = tape.variable(tensor({3, 4}));
  const std::vector<std::int32_t> first{1, 0};
  tape.backward(sum(where(indices({2}, first), a, b) * tensor({kNaN, 5})));
  CHECK(std::isnan(a.gradient().at({0})));
  CHECK(a.gradient().at({1}) == 0.0);
  CHECK(b.gradient() == close({0, 5}));
}

TEST_CASE("selection: the condition and both branches of where broadcast") {
  Tape tape;
  const Var a = tape.variable(tensor({1, 2}));
  const Var y = where(less(tensor({0, 5}).reshape({2, 1}), 3.0), a, -1.0);
  tape.backward(sum(y));
  CHECK(y.shape() == Shape{2, 2});
  CHECK(y.value() == close({1, 2, -1, -1}));
  CHECK(a.gradient() == close({1, 1}));
}

TEST_CASE("selection: where names what doesn't fit") {
  Tape tape;
  const Var x = tape.variable(ones({2}));
  const std::vector<std::int32_t> three{1, 1, 1};
  CHECK_THROWS_WITH_AS(where(ones({2}), x, 0.0), doctest::Contains("where: the condition must be int32, got float32"),
                       Error);
  CHECK_THROWS_WITH_AS(where(indices({3}, three), x, 0.0),
                       doctest::Contains("where: shapes [2] and [3] don't broadcast"), Error);
  CHECK_THROWS_WITH_AS(where(indices({3}, three), 1.0, 0.0),
                       doctest::Contains("where: a recorded value was expected for one of the branches"), Error);
  CHECK_THROWS_WITH_AS(where(indices({3}, three), x, tape.constant(ones({2}, DType::float64))),
                       doctest::Contains("where: the operands are float32 and float64"), Error);
}

TEST_CASE("selection: a root or logarithm of 0 on a path that isn't taken has the gradient 0") {
  Tape tape;
  const Var x = tape.variable(tensor({0.0})), y = tape.variable(tensor({0.0}));
  tape.backward(maximum(sqrt(square(x) + square(y)), 1e-10));
  CHECK(x.gradient().item() == 0.0);
  CHECK(y.gradient().item() == 0.0);
  const Var z = tape.variable(tensor({0, 1}));
  tape.backward(sum(where(greater(z.value(), 0.0), log(z), 5.0)));
  CHECK(z.gradient() == close({0, 1}));
}
