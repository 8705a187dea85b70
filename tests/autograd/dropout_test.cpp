#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/parallel.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("dropout: an element is 0 with probability p, else divided by 1 - p") {
  Tape tape;
  Rng rng(1);
  const std::vector<double> values = dropout(tape.variable(ones({40000})), 0.25, rng).value().values();
  Index dropped = 0;
  for (const double value : values) {
    CHECK((value == 0.0 || value == doctest::Approx(4.0 / 3)));
    dropped += value == 0.0 ? 1 : 0;
  }
  CHECK(std::abs(static_cast<double>(dropped) - 10000.0) < 5 * 86.6);  // five standard deviations, sqrt(n p (1 - p))
}

TEST_CASE("dropout: the gradient goes where the value went") {
  Tape tape;
  Rng rng(1);
  const Var x = tape.variable(ones({100}));
  const Var y = dropout(x, 0.5, rng);
  tape.backward(sum(y));
  CHECK(x.gradient().values() == y.value().values());
}

TEST_CASE("dropout: a dropped infinity is exactly 0") {
  Tape tape;
  Rng rng(1);
  for (const double value : dropout(tape.variable(full({1000}, kInfinity)), 0.1, rng).value().values()) {
    CHECK((value == 0.0 || value == kInfinity));
  }
}

TEST_CASE("dropout: p = 1 gives zeros with zero gradients, p = 0 is x itself") {
  Tape tape;
  Rng rng(1);
  const Var x = tape.variable(tensor({1, kInfinity}));
  const Var none = dropout(x, 1.0, rng);
  tape.backward(sum(none));
  CHECK(none.value() == close({0, 0}, 0.0));
  CHECK(x.gradient() == close({0, 0}, 0.0));
  CHECK(dropout(x, 0.0, rng).index() == x.index());
}

TEST_CASE("dropout: the mask follows from the generator's state, and each call draws another") {
  Tape tape;
  const Var x = tape.variable(ones({50000}));
  Rng a(1), b(1);
  const int before = thread_count();
  const std::vector<double> first = dropout(x, 0.5, a).value().values();
  set_thread_count(before == 1 ? 3 : 1);
  CHECK(dropout(x, 0.5, b).value().values() == first);
  set_thread_count(before);
  CHECK(dropout(x, 0.5, a).value().values() != first);
  CHECK(a.state().counter == 25000);  // two calls of 50000 / 4 blocks
}

TEST_CASE("dropout: a p that is no probability is refused") {
  Tape tape;
  Rng rng(1);
  const Var x = tape.variable(ones({2}));
  CHECK_THROWS_WITH_AS(dropout(x, -0.1, rng), doctest::Contains("dropout: p must be from 0 to 1, got -0.1"), Error);
  CHECK_THROWS_WITH_AS(dropout(x, 1.5, rng), doctest::Contains("dropout: p must be from 0 to 1, got 1.5"), Error);
  CHECK_THROWS_WITH_AS(dropout(x, std::nan(""), rng), doctest::Contains("dropout: p must be from 0 to 1, got nan"),
                       Error);
}
