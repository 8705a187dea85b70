#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <jnorm/core/error.hpp>
#include <jnorm/layers/schedule.hpp>

using namespace jnorm;

namespace {

std::vector<double> first_rates(const Schedule& schedule, Index count) {
  std::vector<double> rates;
  for (Index step = 0; step < count; ++step) rates.push_back(schedule.learning_rate(step));
  return rates;
}

void check_rates(const Schedule& schedule, const std::vector<double>& expected) {
  const std::vector<double> rates = first_rates(schedule, static_cast<Index>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(rates[i] == doctest::Approx(expected[i]).epsilon(1e-14));  // a handful of roundings
  }
}

}  // namespace

TEST_CASE("schedule: a warm-up of 0 or 1 steps starts at the base rate") {
  CHECK(Schedule{.base = 0.1, .warmup_steps = 0}.learning_rate(0) == 0.1);
  CHECK(Schedule{.base = 0.1, .warmup_steps = 1}.learning_rate(0) == 0.1);
}

TEST_CASE("schedule: no step is skipped between warm-up, hold and linear decay") {
  const Schedule schedule{.decay = Decay::linear, .base = 0.1, .warmup_steps = 4, .hold_steps = 2, .total_steps = 10};
  check_rates(schedule, {0.025, 0.05, 0.075, 0.1, 0.1, 0.1, 0.075, 0.05, 0.025, 0.0});
}

TEST_CASE("schedule: the warm-up reaches the base rate exactly and stays there") {
  const Schedule schedule{.base = 5.0, .warmup_steps = 5};
  CHECK(first_rates(schedule, 7) == std::vector<double>{1.0, 2.0, 3.0, 4.0, 5.0, 5.0, 5.0});
}

TEST_CASE("schedule: a base rate that isn't a binary fraction is reached exactly too") {
  CHECK(Schedule{.base = 0.3, .warmup_steps = 49}.learning_rate(48) == 0.3);
}

TEST_CASE("schedule: the cosine falls along half a wave to 0 in the last step") {
  const Schedule schedule{.decay = Decay::cosine, .base = 2.0, .warmup_steps = 1, .total_steps = 5};
  check_rates(schedule, {2.0, 1.0 + std::sqrt(0.5), 1.0, 1.0 - std::sqrt(0.5)});
  CHECK(schedule.learning_rate(4) == 0.0);
}

TEST_CASE("schedule: after the last step the rate stays") {
  const Schedule schedule{.decay = Decay::cosine, .base = 2.0, .total_steps = 5};
  CHECK(schedule.learning_rate(1000) == 0.0);
}

TEST_CASE("schedule: no steps of decay keep the base rate") {
  const Schedule schedule{.decay = Decay::linear, .base = 0.1, .warmup_steps = 3, .total_steps = 3};
  CHECK(schedule.learning_rate(2) == 0.1);
  CHECK(schedule.learning_rate(3) == 0.1);
}

TEST_CASE("schedule: the inverse square root joins the warm-up without a jump") {
  const Schedule schedule{.decay = Decay::inverse_sqrt, .base = 1.0, .warmup_steps = 4};
  check_rates(schedule, {0.25, 0.5, 0.75, 1.0, std::sqrt(4.0 / 5.0)});
  CHECK(schedule.learning_rate(15) == 0.5);  // sqrt(4 / 16)
}

TEST_CASE("schedule: a base rate that is NaN or negative is refused") {
  CHECK_THROWS_WITH_AS(Schedule{.base = -1.0}.learning_rate(0),
                       doctest::Contains("must be finite and not negative, got -1"), Error);
  CHECK_THROWS_AS(Schedule{.base = std::numeric_limits<double>::quiet_NaN()}.learning_rate(0), Error);
}

TEST_CASE("schedule: a total that is shorter than the warm-up is refused") {
  const Schedule schedule{.decay = Decay::cosine, .warmup_steps = 100, .total_steps = 50};
  CHECK_THROWS_WITH_AS(schedule.validate(), doctest::Contains("at least warmup_steps + hold_steps, 100 + 0, got 50"),
                       Error);
}

TEST_CASE("schedule: an unknown decay is told the nearest name") {
  CHECK_THROWS_WITH_AS(decay_from_string("cosin"), doctest::Contains("did you mean cosine?"), Error);
}
