#include <doctest/doctest.h>

#include <limits>

#include <jnorm/autograd/ops.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

Tensor index(const Shape& shape, const std::vector<std::int32_t>& values) { return indices(shape, values); }

}  // namespace

TEST_CASE("indexing: index_select takes slices, and equal indices add in the gradient") {
  Tape tape;
  const Var x = tape.variable(tensor({{1, 2, 3}, {4, 5, 6}}));
  const Var y = index_select(x, -1, index({4}, {2, 0, 2, 2}));
  CHECK(y.value() == close({3, 1, 3, 3, 6, 4, 6, 6}));
  tape.backward(sum(y));
  CHECK(x.gradient() == close({1, 0, 3, 1, 0, 3}));
}

TEST_CASE("indexing: gather takes one element of the axis for each of the index's") {
  Tape tape;
  const Var x = tape.variable(tensor({{1, 2, 3}, {4, 5, 6}}));
  const Var y = gather(x, 1, index({2, 2}, {2, 0, 1, 1}));
  CHECK(y.value() == close({3, 1, 5, 5}));
  tape.backward(sum(y));
  CHECK(x.gradient() == close({1, 0, 1, 0, 2, 0}));
}

TEST_CASE("indexing: the index of gather may be shorter along the other axes") {
  Tape tape;
  const Var x = tape.variable(tensor({{1, 2, 3}, {4, 5, 6}}));
  CHECK(gather(x, 0, index({1, 2}, {1, 0})).value() == close({4, 2}));
}

TEST_CASE("indexing: scatter_add and index_add add up what meets") {
  Tape tape;
  const Var x = tape.variable(tensor({{1, 2}, {3, 4}, {5, 6}}));
  CHECK(index_add(x, 0, index({3}, {1, 1, 0}), {2, 2}).value() == close({5, 6, 4, 6}));
  CHECK(scatter_add(x, 0, index({3, 2}, {0, 0, 0, 1, 0, 0}), {2, 2}).value() == close({9, 8, 0, 4}));
}

TEST_CASE("indexing: an index out of range is refused with its value and position") {
  Tape tape;
  const Var x = tape.variable(ones({2, 3}));
  CHECK_THROWS_WITH_AS(index_select(x, 1, index({2}, {0, 3})),
                       doctest::Contains("index_select: index 3 at position 1 is outside [0, 3)"), Error);
  CHECK_THROWS_WITH_AS(gather(x, 0, index({1, 1}, {-1})),
                       doctest::Contains("gather: index -1 at position 0 is outside [0, 2)"), Error);
  CHECK_THROWS_WITH_AS(index_add(x, 0, index({2}, {0, 2}), {2, 3}),
                       doctest::Contains("index_add: index 2 at position 1 is outside [0, 2)"), Error);
}

TEST_CASE("indexing: an index of another dtype or shape is refused") {
  Tape tape;
  const Var x = tape.variable(ones({2, 3}));
  CHECK_THROWS_WITH_AS(index_select(x, 0, ones({2})), doctest::Contains("the index must be int32, got float32"), Error);
  CHECK_THROWS_WITH_AS(index_select(x, 0, index({1, 1}, {0})), doctest::Contains("the index must be [n], got [1, 1]"),
                       Error);
  CHECK_THROWS_WITH_AS(gather(x, 0, index({2}, {0, 0})), doctest::Contains("2 axes need an index of as many, got [2]"),
                       Error);
  CHECK_THROWS_WITH_AS(gather(x, 1, index({3, 1}, {0, 0, 0})),
                       doctest::Contains("an index of shape [3, 1] doesn't fit [2, 3] beside axis 1"), Error);
}

TEST_CASE("indexing: argmax is the first of the largest, and a NaN is the largest") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = tensor({{1, 3, 3}, {nan, 5, nan}, {-1, -2, -3}});
  CHECK(argmax(x).values() == std::vector<double>{1, 0, 0});
  CHECK(argmax(x, 0).values() == std::vector<double>{1, 1, 1});
  CHECK_THROWS_WITH_AS(argmax(ones({2, 0})), doctest::Contains("argmax: axis 1 of [2, 0] has no elements"), Error);
}
