#include <doctest/doctest.h>

#include <jnorm/core/layout.hpp>

using namespace jnorm;

TEST_CASE("layout: an axis steps over all that the later ones hold") {
  const Strides strides = row_major({2, 3, 4});
  CHECK(strides.offset == 0);
  CHECK(strides.steps[0] == 12);
  CHECK(strides.steps[1] == 4);
  CHECK(strides.steps[2] == 1);
}

TEST_CASE("layout: a tensor seen from one of its axes, the first and the last too") {
  const AlongAxis middle({2, 3, 4, 5}, 1), first({2, 3}, 0), last({2, 3}, 1);
  CHECK(middle.outer == 2);
  CHECK(middle.length == 3);
  CHECK(middle.inner == 20);
  CHECK(first.outer == 1);
  CHECK(first.inner == 3);
  CHECK(last.outer == 2);
  CHECK(last.inner == 1);
}
