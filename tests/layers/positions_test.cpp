#include <jnorm/layers/positions.hpp>

#include <doctest/doctest.h>

#include <jnorm/core/error.hpp>

#include "support/close.hpp"

using namespace jnorm;

// sin and cos of 2, and of 2 / 100.
TEST_CASE("positions: sines and cosines alternate, and each pair turns more slowly than the one before") {
  const Tensor table = sinusoidal_positions(3, 4, DType::float64);
  CHECK(table.shape() == Shape{3, 4});
  CHECK(table ==
        close({0, 1, 0, 1, 0.8414710, 0.5403023, 0.0099998, 0.9999500, 0.9092974, -0.4161468, 0.0199987, 0.9998000}));
}

TEST_CASE("positions: an odd width ends with a sine") {
  CHECK(sinusoidal_positions(2, 3, DType::float64).at({1, 2}) == doctest::Approx(0.0021544).epsilon(1e-4));
}

TEST_CASE("positions: names go both ways, and an unknown one is told the nearest") {
  for (const Positions each : all_positions()) CHECK(positions_from_string(to_string(each)) == each);
  CHECK_THROWS_WITH_AS(positions_from_string("rotatory"), doctest::Contains("did you mean rotary?"), Error);
}

TEST_CASE("positions: sizes that aren't positive are refused") {
  CHECK_THROWS_WITH_AS(sinusoidal_positions(0, 4), "sinusoidal_positions: expected positive sizes, got 0 x 4", Error);
}
