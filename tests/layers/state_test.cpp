#include <doctest/doctest.h>

#include <jnorm/core/error.hpp>
#include <jnorm/layers/state.hpp>

#include "support/close.hpp"

using namespace jnorm;

TEST_CASE("state: a name that is given twice is unexpected the second time") {
  const NamedTensors expected{{"a", zeros({1})}};
  CHECK_THROWS_WITH_AS(match_state("test", expected, {{"a", ones({1})}, {"a", zeros({1})}}),
                       "test: the names or shapes differ; 1 unexpected: a (again)", Error);
}

TEST_CASE("state: integers don't stand for real numbers") {
  const std::int32_t one = 1;
  const NamedTensors expected{{"a", zeros({1})}};
  CHECK_THROWS_WITH_AS(match_state("test", expected, {{"a", indices({1}, {&one, 1})}}),
                       doctest::Contains("a (expected float32 [1], got int32 [1])"), Error);
}

TEST_CASE("state: what matches comes in the expected order, whatever order it was given in") {
  const NamedTensors expected{{"a", zeros({1})}, {"b", zeros({1})}};
  const std::vector<Tensor> matched = match_state("test", expected, {{"b", tensor({2})}, {"a", tensor({1})}});
  CHECK(matched[0] == close({1}));
  CHECK(matched[1] == close({2}));
}
