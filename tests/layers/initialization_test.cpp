#include <doctest/doctest.h>

#include <cmath>

#include <jnorm/core/error.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/layers/linear.hpp>

using namespace jnorm;

namespace {

// Root of the mean square of a new 512 -> 64 map's 32768 weights. Its own deviation is 1 / sqrt(2 * 32768) = 0.4% of
// it.
double measured_deviation(Initialization initialization) {
  Rng rng(1);
  const Linear map(512, 64, {.initialization = initialization}, rng);
  const Tensor& weight = map.parameters()[0]->value();
  return norm(weight) / std::sqrt(static_cast<double>(weight.size()));
}

}  // namespace

TEST_CASE("initialization: kaiming counts the features that go in, whatever the layout") {
  CHECK(weight_deviation(Initialization::kaiming, 512, 64) == 0.0625);
  CHECK(measured_deviation(Initialization::kaiming) == doctest::Approx(0.0625).epsilon(0.02));
}

TEST_CASE("initialization: xavier counts both sides") {
  CHECK(weight_deviation(Initialization::xavier, 512, 64) == doctest::Approx(std::sqrt(2.0 / 576.0)));
  CHECK(measured_deviation(Initialization::xavier) == doctest::Approx(std::sqrt(2.0 / 576.0)).epsilon(0.02));
}

TEST_CASE("initialization: names go both ways") {
  CHECK(initialization_from_string(to_string(Initialization::kaiming)) == Initialization::kaiming);
}

TEST_CASE("initialization: an unknown name is told the nearest one") {
  CHECK_THROWS_WITH_AS(
      initialization_from_string("xaver"),
      "initialization: expected one of xavier, kaiming, gpt2, tfixup, deepnorm, got \"xaver\"; did you mean xavier?",
      Error);
}
