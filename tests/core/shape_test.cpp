#include <jnorm/core/shape.hpp>

#include <limits>
#include <vector>

#include <doctest/doctest.h>
#include <jnorm/core/error.hpp>

using namespace jnorm;

namespace {

constexpr Index kLargest = std::numeric_limits<Index>::max();

}  // namespace

TEST_CASE("a scalar has no axes and one element") {
  CHECK(Shape{}.rank() == 0);
  CHECK(Shape{}.size() == 1);
  CHECK(Shape().size() == 1);
  CHECK(to_string(Shape{}) == "[]");
}

TEST_CASE("axes count from the front or, negative, from the end") {
  const Shape shape{2, 3, 5};
  CHECK(shape.size() == 30);
  CHECK(shape[0] == 2);
  CHECK(shape[-1] == 5);
  CHECK(shape[-3] == 2);
  CHECK(shape.last() == 5);
  CHECK(shape.resolve_axis(-2) == 1);
  CHECK(to_string(shape) == "[2, 3, 5]");
}

TEST_CASE("an axis out of range is refused") {
  const Shape shape{2, 3};
  CHECK_THROWS_WITH_AS(shape[2], "axis 2 is out of range for shape [2, 3]", Error);
  CHECK_THROWS_WITH_AS(shape[-3], "axis -3 is out of range for shape [2, 3]", Error);
  CHECK_THROWS_WITH_AS(Shape{}.last(), "axis -1 is out of range for shape []", Error);
}

TEST_CASE("an axis of 0 makes a shape empty") {
  CHECK(Shape{2, 0, 3}.size() == 0);
  CHECK(Shape{0}.size() == 0);
  CHECK(Shape{2, 0, 3}[2] == 3);
}

TEST_CASE("a negative size is refused, also beside a 0") {
  CHECK_THROWS_WITH_AS(Shape({2, -1}), "shape: sizes must not be negative, but axis 1 has -1", Error);
  CHECK_THROWS_AS(Shape({0, -1}), Error);
}

TEST_CASE("up to six axes are supported") {
  CHECK(Shape{1, 2, 1, 2, 1, 2}.rank() == Shape::kMaxRank);
  CHECK_THROWS_WITH_AS(Shape({1, 1, 1, 1, 1, 1, 1}), "shape: at most 6 axes are supported, got 7", Error);
  CHECK_THROWS_AS(Shape({1, 1, 1, 1, 1, 1}).with_leading(2), Error);
}

TEST_CASE("a number of elements beyond 64 bits is refused, also beside an axis of 0") {
  CHECK_THROWS_WITH_AS(Shape({Index{1} << 32, Index{1} << 32}),
                       "shape: 4294967296 * 4294967296 elements overflow 64 bits", Error);
  CHECK_THROWS_AS(Shape({0, Index{1} << 32, Index{1} << 32}), Error);
  CHECK_THROWS_AS(Shape({Index{1} << 32, Index{1} << 32, 0}), Error);
  CHECK_THROWS_AS(Shape({kLargest, 2}), Error);
  CHECK(Shape({kLargest, 1}).size() == kLargest);
  CHECK_THROWS_AS(Shape({kLargest}).with_leading(2), Error);
}

TEST_CASE("offsets beyond 32 bits don't wrap") {
  CHECK(row_major_offset(239674, 8960, 8959) == 2147487999);  // 32 bits end at 2147483647
  CHECK(Shape{239675, 8960}.size() == 2147488000);
  CHECK(checked_product(Index{1} << 31, Index{1} << 31) == Index{1} << 62);
  CHECK_THROWS_AS(checked_product(Index{1} << 32, Index{1} << 31), Error);
}

TEST_CASE("shapes are equal if all sizes are") {
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK_FALSE(Shape{2, 3} == Shape{3, 2});
  CHECK_FALSE(Shape{2, 3} == Shape{2, 3, 1});
  CHECK_FALSE(Shape{} == Shape{1});
}

TEST_CASE("axes are added, removed and changed") {
  CHECK(Shape{2, 3}.with_leading(5) == Shape{5, 2, 3});
  CHECK(Shape{2, 3}.without_leading() == Shape{3});
  CHECK(Shape{2, 3}.with_axis(-1, 7) == Shape{2, 7});
  CHECK_THROWS_WITH_AS(Shape{}.without_leading(), "shape: a scalar has no leading axis", Error);
  CHECK_THROWS_AS(Shape({2, 3}).with_axis(2, 7), Error);
}

TEST_CASE("a shape ends with its suffixes") {
  const Shape shape{2, 3, 5};
  CHECK(shape.has_suffix({3, 5}));
  CHECK(shape.has_suffix({}));
  CHECK(shape.has_suffix(shape));
  CHECK_FALSE(shape.has_suffix({2, 3}));
  CHECK_FALSE(shape.has_suffix({1, 2, 3, 5}));
}

TEST_CASE("sizes are iterated in order") {
  const Shape shape{2, 3, 5};
  CHECK(std::vector<Index>(shape.begin(), shape.end()) == std::vector<Index>{2, 3, 5});
}

TEST_CASE("shapes broadcast aligned at the last axis") {
  CHECK(broadcast_shapes({2, 3}, {3}) == Shape{2, 3});
  CHECK(broadcast_shapes({3}, {2, 3}) == Shape{2, 3});
  CHECK(broadcast_shapes({2, 1, 5}, {4, 1}) == Shape{2, 4, 5});
  CHECK(broadcast_shapes({}, {2, 3}) == Shape{2, 3});
  CHECK(broadcast_shapes({}, {}) == Shape{});
}

TEST_CASE("an axis of 1 broadcasts to an axis of 0") {
  CHECK(broadcast_shapes({2, 1}, {2, 0}) == Shape{2, 0});
  CHECK_THROWS_AS(broadcast_shapes({3}, {0}), Error);
}

TEST_CASE("sizes that differ and aren't 1 don't broadcast") {
  CHECK_THROWS_WITH_AS(broadcast_shapes({2, 3}, {2}), "shapes [2, 3] and [2] don't broadcast: axis -1 has 3 and 2",
                       Error);
  CHECK_THROWS_WITH_AS(broadcast_shapes({4, 3}, {2, 1}),
                       "shapes [4, 3] and [2, 1] don't broadcast: axis -2 has 4 and 2", Error);
}

TEST_CASE("two shapes whose broadcast overflows are refused") {
  CHECK_THROWS_AS(broadcast_shapes({Index{1} << 32, 1}, {1, Index{1} << 32}), Error);
}
