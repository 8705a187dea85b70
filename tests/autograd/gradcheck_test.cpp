#include <cmath>

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
  CHECK(to_string(report).find("input 0 (x0) at [") != std::string::npos);
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

TEST_CASE("gradcheck: a NaN is the worst error, wherever it stands") {
  const GradientWitness nan{.name = "", .error = std::nan(""), .tolerance = 1.0, .worst = ""};
  const GradientWitness small{.name = "", .error = 1e-9, .tolerance = 1.0, .worst = ""};
  CHECK(nan.worse_than(small));
  CHECK_FALSE(small.worse_than(nan));
  CHECK(std::isnan(GradientReport{{small, nan, small}}.worst_error()));
  CHECK(GradientReport{{small, small}}.worst_error() == 1e-9);
}

TEST_CASE("gradcheck: shared sub-expressions are visited once, not once a path") {
  const auto doublings = [](std::span<const Var> x) {
    Var a = x[0];
    for (int i = 0; i < 100; ++i) a = a + a;
    return a;
  };
  CHECK(check_gradients(doublings, {ones({1})}, {.order = 3}).passed());
}

TEST_CASE("gradcheck: an input that was transposed is checked like its copy") {
  Rng rng(1);
  const Tensor x = randn({3, 5}, rng, DType::float64);
  const auto sigmoid = [](std::span<const Var> xs) { return reciprocal(exp(-transpose(xs[0])) + 1.0); };
  CHECK(check_gradients(sigmoid, {x}).passed());
  constexpr int swapped[] = {1, 0};
  CHECK(check_gradients(sigmoid, {permute(x, swapped)}).passed());
}
