#include <doctest/doctest.h>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/error.hpp>
#include <jnorm/layers/feed_forward.hpp>

#include "support/close.hpp"

using namespace jnorm;

TEST_CASE("feed_forward: down(relu(up(x))), by hand") {
  FeedForward layer({.dim = 1, .ffn = 2, .activation = Activation::relu}, Rng(1));
  layer.load_state({{"up.weight", tensor({1, -1}).reshape({2, 1})},
                    {"up.bias", tensor({0.5, 0.5})},
                    {"down.weight", tensor({10, 100}).reshape({1, 2})},
                    {"down.bias", tensor({1})}});
  Tape tape;
  CHECK(layer(tape.variable(tensor({2, -3}).reshape({2, 1}))).value() ==
        close({26, 351}));  // 10 (2.5) + 1, 100 (3.5) + 1
}

TEST_CASE("activate: each activation is the operation of its name") {
  Tape tape;
  const Var x = tape.variable(tensor({-4, 2}));
  CHECK(activate(Activation::relu, x).value().values() == relu(x).value().values());
  CHECK(activate(Activation::gelu, x).value().values() == gelu(x).value().values());
  CHECK(activate(Activation::gelu_tanh, x).value().values() == gelu_tanh(x).value().values());
  CHECK(activate(Activation::silu, x).value().values() == silu(x).value().values());
}

TEST_CASE("activation: names go both ways, and an unknown one is refused") {
  CHECK(activation_from_string(to_string(Activation::gelu_tanh)) == Activation::gelu_tanh);
  CHECK_THROWS_WITH_AS(activation_from_string("tanh"), doctest::Contains("expected one of relu, gelu, gelu_tanh"),
                       Error);
}
