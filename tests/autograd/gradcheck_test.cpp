#include <doctest/doctest.h>

#include <jnorm/autograd/custom.hpp>
#include <jnorm/autograd/gradcheck.hpp>
#include <jnorm/core/random.hpp>

using namespace jnorm;

namespace {

auto right = [](auto& x, auto& y, auto& dy, auto& dx) { dx = dy * (y + (1 - y) / (1 + xt::exp(-x))); };
auto forward = [](auto& x, auto& y) { y = x / (1 + xt::exp(-x)); };

}  // namespace

TEST_CASE("gradcheck: a right operation of one's own passes") {
  Rng rng(1);
  CHECK(check_gradients(custom("swish", forward, right), {randn({3, 4}, rng)}).passed());
}

TEST_CASE("gradcheck: a dropped term fails, and the report says where") {
  Rng rng(1);
  const Custom broken =
      custom("swish", forward, [](auto& x, auto& y, auto& dy, auto& dx) { dx = dy * (y + 1 / (1 + xt::exp(-x))); });
  const GradientReport report = check_gradients(broken, {randn({3, 4}, rng)});
  CHECK_FALSE(report.passed());
  CHECK(to_string(report).find("FAILS at order 1, central differences") != std::string::npos);
  CHECK(to_string(report).find("input 0 at [") != std::string::npos);
}

TEST_CASE("gradcheck: a wrong sign fails") {
  Rng rng(1);
  const Custom broken = custom(
      "swish", forward, [](auto& x, auto& y, auto& dy, auto& dx) { dx = -dy * (y + (1 - y) / (1 + xt::exp(-x))); });
  CHECK_FALSE(check_gradients(broken, {randn({2}, rng)}).passed());
}

TEST_CASE("gradcheck: a gradient that is NaN fails") {
  Rng rng(1);
  const Custom broken =
      custom("swish", forward, [](auto& x, auto&, auto& dy, auto& dx) { dx = dy * (x - x) / (x - x); });
  CHECK_FALSE(check_gradients(broken, {randn({2}, rng)}).passed());
}

TEST_CASE("gradcheck: an operation of two inputs is checked in both") {
  Rng rng(1);
  const Custom product = custom(
      "product", [](auto& a, auto& b, auto& y) { y = a * b; },
      [](auto& a, auto& b, auto&, auto& dy, auto& da, auto& db) {
        da = dy * b;
        db = dy * a;
      });
  const auto call = [&](std::span<const Var> x) { return product(x[0], x[1]); };
  CHECK(check_gradients(call, {randn({3}, rng), randn({3}, rng)}).passed());
}

TEST_CASE("gradcheck: float32 inputs are checked in float64") {
  Rng rng(1);
  const auto cube = [](std::span<const Var> x) { return square(x[0]) * x[0]; };
  CHECK(check_gradients(cube, {ones({1}, DType::float32)}).worst_error() < 1e-9);
}

TEST_CASE("custom: a gradient of the wrong shape is an error") {
  Tape tape;
  const Custom wrong = custom(
      "wrong", [](auto& x, auto& y) { y = x; }, [](auto&, auto&, auto&, auto& dx) { dx = xt::ones<double>({7}); });
  const Var y = wrong(tape.variable(ones({2}, DType::float64)));
  CHECK_THROWS_WITH_AS(tape.backward(sum(y)), doctest::Contains("gradient of shape [7] for input 0, which is [2]"),
                       Error);
}

TEST_CASE("custom: it works in float32 as well") {
  Tape tape;
  const Var x = tape.variable(tensor({1, 2}));
  tape.backward(sum(custom("swish", forward, right)(x)));
  CHECK(x.gradient().dtype() == DType::float32);
}
