#include <doctest/doctest.h>

#include <jnorm/cuda/walk.hpp>

using namespace jnorm;
using cuda::make_walk;
using cuda::Walk;
using cuda::WalkAxis;

TEST_CASE("cuda walk: axes that step as one are joined, and those of size 1 left out") {
  const Shape shape{2, 1, 3, 4};
  const Walk whole = make_walk(shape, row_major(shape), row_major(shape));
  CHECK(whole.rank == 1);
  CHECK(whole[0] == WalkAxis{24, 1, 1});
  CHECK(whole.count == 24);
}

TEST_CASE("cuda walk: [B, T, H, D] to [B, H, T, D] keeps four axes, in units of a row's 16 bytes") {
  // y's axes are x's 0, 2, 1, 3 of [2, 5, 3, 8].
  const Walk walk = make_walk({2, 3, 5, 8}, {0, {120, 8, 24, 1}}, row_major({2, 3, 5, 8}));
  CHECK(walk.rank == 4);
  CHECK(walk[1] == WalkAxis{5, 24, 8});
  CHECK(cuda::unit_of(walk, 4) == 4);
  const Walk units = cuda::in_units(walk, 4);
  CHECK(units[0] == WalkAxis{2, 1, 1});
  CHECK(units[1] == WalkAxis{5, 6, 2});
  CHECK(units.count == 60);
}

TEST_CASE("cuda walk: a unit divides the inner axis, where it begins, and every step") {
  const auto unit_of = [](Index size, Index from, Index row, Index step = 1) {
    return cuda::unit_of(make_walk({3, size}, {from, {row, step}}, {0, {64, 1}}), 8);
  };
  CHECK(unit_of(16, 0, 32) == 8);
  CHECK(unit_of(12, 0, 32) == 4);
  CHECK(unit_of(16, 2, 32) == 2);
  CHECK(unit_of(16, 0, 17) == 1);
  CHECK(unit_of(16, 0, 32, 2) == 1);
  CHECK(unit_of(16, 0, 0) == 8);    // a row that repeats
  CHECK(unit_of(16, 0, -32) == 8);  // backwards
}
