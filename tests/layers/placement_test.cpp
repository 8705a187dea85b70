#include <doctest/doctest.h>

#include <jnorm/core/error.hpp>
#include <jnorm/layers/placement.hpp>

using namespace jnorm;

TEST_CASE("placement: every placement is found by its name") {
  for (const Placement* placement : Placement::all()) CHECK(&Placement::named(placement->name) == placement);
}

TEST_CASE("placement: a Pre-Norm model ends with a norm by default, a Post-Norm model doesn't need one") {
  CHECK(Placement::pre.final_norm);
  CHECK_FALSE(Placement::post.final_norm);
}

TEST_CASE("placement: an unknown one is told the nearest name") {
  CHECK_THROWS_WITH_AS(Placement::named("psot"), doctest::Contains("got \"psot\"; did you mean post?"), Error);
}
