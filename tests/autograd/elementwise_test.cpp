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
