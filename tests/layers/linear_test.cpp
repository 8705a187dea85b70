#include <doctest/doctest.h>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/error.hpp>
#include <jnorm/layers/linear.hpp>

#include "support/close.hpp"

using namespace jnorm;

TEST_CASE("linear: the weight is stored [out, in], and y = x W^T + b") {
  Rng rng(1);
  Linear map(3, 2, rng);
  map.load_state({{"weight", tensor({{1, 2, 3}, {4, 5, 6}})}, {"bias", tensor({10, 20})}});
  Tape tape;
  CHECK(map(tape.variable(tensor({{1, 0, 0}, {0, 1, 1}}))).value() == close({11, 24, 15, 31}));
}

TEST_CASE("linear: the bias starts at 0") {
  Rng rng(1);
  const Linear map(3, 2, rng);
  CHECK(map.parameters()[1]->value() == close({0, 0}));
}

TEST_CASE("linear: without a bias there is one parameter") {
  Rng rng(1);
  const Linear map(3, 2, {.bias = false}, rng);
  CHECK(map.parameters().size() == 1);
}

TEST_CASE("linear: two maps drawn from one stream differ") {
  Rng rng(1);
  const Linear first(2, 2, rng), second(2, 2, rng);
  CHECK(first.parameters()[0]->value().values() != second.parameters()[0]->value().values());
}

TEST_CASE("linear: an input of another width is refused with both sizes and the caller's line") {
  Rng rng(1);
  Linear map(3, 2, rng);
  Tape tape;
  const Var x = tape.variable(zeros({4, 7}));
  CHECK_THROWS_WITH_AS(map(x, {"train.cpp", 17}),
                       "linear: the last axis of x [4, 7] must be the weight's input size 3 (at train.cpp:17)", Error);
}

TEST_CASE("linear: a size of 0 is refused") {
  Rng rng(1);
  CHECK_THROWS_WITH_AS(Linear(0, 2, rng), "linear: expected positive sizes, got 0 -> 2", Error);
}
