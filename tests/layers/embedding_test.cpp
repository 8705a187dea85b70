#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include <jnorm/autograd/tape.hpp>
#include <jnorm/core/error.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/layers/embedding.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

Tensor tokens(std::initializer_list<std::int32_t> values) {
  return indices({static_cast<Index>(values.size())}, {values.begin(), values.size()});
}

}  // namespace

TEST_CASE("embedding: every token gets its row of the table") {
  Rng rng(1);
  Embedding embedding(3, 2, 1.0, rng);
  embedding.load_state({{"table", tensor({{1, 2}, {3, 4}, {5, 6}})}});
  Tape tape;
  CHECK(embedding(tape, tokens({2, 0, 2})).value() == close({5, 6, 1, 2, 5, 6}));
}

TEST_CASE("embedding: a token that equals the number of rows is refused") {
  Rng rng(1);
  Embedding embedding(3, 2, 1.0, rng);
  Tape tape;
  CHECK_THROWS_WITH_AS(embedding(tape, tokens({0, 3})), doctest::Contains("token 3 at position 1 is outside [0, 3)"),
                       Error);
}

TEST_CASE("embedding: a negative token is refused") {
  Rng rng(1);
  Embedding embedding(3, 2, 1.0, rng);
  Tape tape;
  CHECK_THROWS_WITH_AS(embedding(tape, tokens({-1})), doctest::Contains("token -1 at position 0 is outside [0, 3)"),
                       Error);
}

TEST_CASE("embedding: with a standard deviation of 0 the table is exactly 0") {
  Rng rng(1);
  const Embedding embedding(50, 8, 0.0, rng);
  CHECK(norm(embedding.parameters()[0]->value()) == 0.0);
}

TEST_CASE("embedding: the table starts with the standard deviation that was asked for") {
  Rng rng(1);
  const Embedding embedding(256, 64, 0.02, rng);
  const double deviation = norm(embedding.parameters()[0]->value()) / std::sqrt(256.0 * 64.0);
  CHECK(deviation == doctest::Approx(0.02).epsilon(0.03));  // itself known to 1 / sqrt(2 * 16384) = 0.6%
}

TEST_CASE("embedding: a negative standard deviation is refused") {
  Rng rng(1);
  CHECK_THROWS_WITH_AS(Embedding(3, 2, -1.0, rng), doctest::Contains("must not be negative, but is -1"), Error);
}
