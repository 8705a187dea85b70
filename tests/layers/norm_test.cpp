#include <doctest/doctest.h>

#include <limits>

#include <jnorm/core/error.hpp>
#include <jnorm/layers/norm.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

Tensor normalized(NormKind kind) {
  const auto norm = make_norm(kind, 4, 0.0);
  Tape tape;
  return (*norm)(tape.variable(tensor({1, 2, 3, 4}))).value();
}

}  // namespace

TEST_CASE("norm: a new LayerNorm has mean 0 and variance 1") {
  CHECK(normalized(NormKind::layer) == close({-1.341641, -0.447214, 0.447214, 1.341641}));
}

TEST_CASE("norm: a new RMSNorm keeps the mean") {
  CHECK(normalized(NormKind::rms) == close({0.365148, 0.730297, 1.095445, 1.460593}));
}

TEST_CASE("norm: none leaves its input as it is and has no parameters") {
  CHECK(normalized(NormKind::none) == close({1, 2, 3, 4}, 0.0));
  CHECK(make_norm(NormKind::none, 4)->parameters().empty());
}

TEST_CASE("norm: every row of the last axis is normalized by itself") {
  LayerNorm norm(4, {.eps = 0.0});
  Tape tape;
  const Tensor x = tensor({{1, 2, 3, 4}, {100, 200, 300, 400}});
  CHECK(norm(tape.variable(x)).value() ==
        close({-1.341641, -0.447214, 0.447214, 1.341641, -1.341641, -0.447214, 0.447214, 1.341641}));
}

TEST_CASE("norm: an input of another width is refused with both sizes") {
  LayerNorm norm(768);
  Tape tape;
  CHECK_THROWS_WITH_AS(norm(tape.variable(zeros({2, 1024}))),
                       doctest::Contains("the last axis of x is 1024, but gamma has 768"), Error);
}

TEST_CASE("norm: an eps that is negative or NaN is refused when the norm is made") {
  CHECK_THROWS_WITH_AS(LayerNorm(4, {.eps = -1.0}), "layer_norm: eps must be finite and not negative, but is -1",
                       Error);
  CHECK_THROWS_AS(RmsNorm(4, {.eps = std::numeric_limits<double>::quiet_NaN()}), Error);
}

TEST_CASE("norm: names go both ways, and an unknown one is told the nearest") {
  CHECK(norm_kind_from_string(to_string(NormKind::rms)) == NormKind::rms);
  CHECK_THROWS_WITH_AS(
      norm_kind_from_string("layr"),
      "norm: expected one of layer, rms, batch, group, scale, dyt, none, got \"layr\"; did you mean layer?", Error);
}
