#include <jnorm/layers/dropout.hpp>

#include <algorithm>

#include <doctest/doctest.h>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/error.hpp>

using namespace jnorm;

namespace {

std::vector<double> dropped(Dropout& dropout) {
  Tape tape;
  return dropout(tape.variable(ones({1000}))).value().values();
}

}  // namespace

TEST_CASE("dropout: in training an element is 0, or divided by 1 - p") {
  Dropout dropout(0.75);
  const std::vector<double> y = dropped(dropout);
  const auto zeros = std::count(y.begin(), y.end(), 0.0), fours = std::count(y.begin(), y.end(), 4.0);
  CHECK(zeros + fours == 1000);
  CHECK(std::abs(zeros - 750) < 60);  // four standard deviations
}

TEST_CASE("dropout: in evaluation it passes x on") {
  Dropout dropout(0.75);
  dropout.set_training(false);
  Tape tape;
  const Var x = tape.variable(ones({4}));
  CHECK(dropout(x).index() == x.index());
}

TEST_CASE("dropout: what it draws follows from where its random numbers start, and goes on with every call") {
  Dropout dropout(0.5);
  dropout.start_random(Rng(3));
  const std::vector<double> first = dropped(dropout), second = dropped(dropout);
  CHECK(first != second);
  dropout.start_random(Rng(3));
  CHECK(dropped(dropout) == first);
  dropout.start_random(Rng(4));
  CHECK(dropped(dropout) != first);
}

TEST_CASE("dropout: two layers of one parent draw differently") {
  Sequence both;
  both.append(std::make_unique<Dropout>(0.5));
  both.append(std::make_unique<Dropout>(0.5));
  both.start_random(Rng(3));
  Tape tape;
  const Var x = tape.variable(ones({1000}));
  CHECK(both[0](x).value().values() != both[1](x).value().values());
}

TEST_CASE("dropout: a probability outside [0, 1] is refused") {
  CHECK_THROWS_WITH_AS(Dropout(1.5), "dropout: expected a probability in [0, 1], got 1.5", Error);
  CHECK_THROWS_AS(Dropout(-0.1), Error);
}
