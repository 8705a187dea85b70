#include <doctest/doctest.h>

#include <jnorm/autograd/ops.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

struct At2 {
  double value, derivative;
  friend bool operator==(const At2&, const At2&) = default;
};

At2 at_2(Var (*function)(const Var&)) {
  Tape tape;
  const Var x = tape.variable(tensor({2}, DType::float64));
  const Var y = function(x);
  tape.backward(y);
  return {y.item(), x.gradient().item()};
}

}  // namespace

TEST_CASE("arithmetic: a number may stand on either side") {
  CHECK(at_2([](const Var& x) { return x + 8.0; }) == At2{10, 1});
  CHECK(at_2([](const Var& x) { return x - 8.0; }) == At2{-6, 1});
  CHECK(at_2([](const Var& x) { return x * 8.0; }) == At2{16, 8});
  CHECK(at_2([](const Var& x) { return x / 8.0; }) == At2{0.25, 0.125});
  CHECK(at_2([](const Var& x) { return 8.0 + x; }) == At2{10, 1});
  CHECK(at_2([](const Var& x) { return 8.0 - x; }) == At2{6, -1});
  CHECK(at_2([](const Var& x) { return 8.0 * x; }) == At2{16, 8});
  CHECK(at_2([](const Var& x) { return 8.0 / x; }) == At2{4, -2});
  CHECK(at_2([](const Var& x) { return -x; }) == At2{-2, -1});
}

TEST_CASE("arithmetic: a tensor as an operand is a constant") {
  Tape tape;
  const Var x = tape.variable(tensor({2, 3}));
  const Var y = x * tensor({5, 7});
  tape.backward(sum(y));
  CHECK(y.value() == close({10, 21}));
  CHECK(x.gradient() == close({5, 7}));
}

TEST_CASE("arithmetic: an undefined Var is no number") {
  Tape tape;
  const Var x = tape.variable(ones({2}));
  CHECK_THROWS_WITH_AS(x + Var(), doctest::Contains("never recorded"), Error);
  CHECK_THROWS_WITH_AS(x * Var(), doctest::Contains("never recorded"), Error);
  CHECK_THROWS_WITH_AS(2.0 * Operand(Var()), doctest::Contains("never recorded"), Error);
}

TEST_CASE("arithmetic: shapes that don't broadcast are refused with both") {
  Tape tape;
  const Var a = tape.variable(ones({2, 3}));
  const Var b = tape.variable(ones({2}));
  CHECK_THROWS_WITH_AS(a + b, doctest::Contains("add: shapes [2, 3] and [2] don't broadcast"), Error);
}

TEST_CASE("arithmetic: float32 and float64 don't mix silently") {
  Tape tape;
  const Var a = tape.variable(ones({2}));
  const Var b = tape.variable(ones({2}, DType::float64));
  CHECK_THROWS_WITH_AS(a * b, doctest::Contains("multiply: the operands are float32 and float64"), Error);
}
