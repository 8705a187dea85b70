#include <doctest/doctest.h>

#include <numbers>

#include <jnorm/autograd/custom.hpp>
#include <jnorm/autograd/ops.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

auto forward = [](auto& x, auto& y) { y = x / (1 + xt::exp(-x)); };
auto backward = [](auto& x, auto& y, auto& dy, auto& dx) { dx = dy * (y + (1 - y) / (1 + xt::exp(-x))); };

}  // namespace

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
  tape.backward(sum(custom("swish", forward, backward)(x)));
  CHECK(x.gradient().dtype() == DType::float32);
}

TEST_CASE("custom: several cotangents at once give a gradient each") {
  const Custom square_of = custom(
      "square_of", [](auto& x, auto& y) { y = x * x; },
      [](auto& x, auto& /*y*/, auto& dy, auto& dx) { dx = 2 * x * dy; });
  Tape tape;
  const Var x = tape.variable(tensor({3, 5}, DType::float64));
  const Tensor dx = tape.gradients(square_of(x), {&x, 1}, tensor({{1, 0}, {2, -1}}, DType::float64))[0];
  CHECK(dx == close({6, 0, 12, -10}, 0.0));
}

TEST_CASE("custom: a constant that is local to the lambda is still there when the values are computed") {
  const Custom wave = custom(
      "wave",
      [](auto& x, auto& y) {
        const double scale = 0.01;
        y = xt::square(xt::sin(x * scale));
      },
      [](auto& x, auto&, auto& dy, auto& dx) {
        const double scale = 0.01;
        dx = dy * scale * xt::sin(x * (2 * scale));
      });
  Tape tape;
  const Var x = tape.variable(affine(tensor({2, 4, 6, 8}, DType::float64), std::numbers::pi, 0.0));
  CHECK(wave(x).value() == close({0.003943, 0.015708, 0.035112, 0.061847}));
}

TEST_CASE("custom: it can't be differentiated again, and says so") {
  Tape tape;
  const Var x = tape.variable(tensor({1}));
  const Var y = custom("swish", forward, backward)(x);
  CHECK_THROWS_WITH_AS(tape.recorded_gradients(y, {&x, 1}),
                       doctest::Contains("swish: it has no composed definition, so it can't be differentiated again"),
                       Error);
}
