#include <doctest/doctest.h>

#include <jnorm/autograd/ops.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

// 0 to 11 as [3, 4].
Tensor three_by_four() { return tensor({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}).reshape({3, 4}); }

}  // namespace

TEST_CASE("parts: a slice is Python's, negative and missing bounds included") {
  Tape tape;
  const Var x = tape.variable(three_by_four());
  CHECK(slice(x, {{1, 3}, {.step = 2}}).value() == close({4, 6, 8, 10}));
  CHECK(slice(x, {{-1}}).value() == close({8, 9, 10, 11}));
  CHECK(slice(x, -1, {.stop = -3}).value() == close({0, 4, 8}));
  CHECK(slice(x, 0, {.start = 2, .stop = 100}).shape() == Shape{1, 4});
  CHECK(slice(x, 0, {.start = 2, .stop = 1}).shape() == Shape{0, 4});
  CHECK(slice(x, 1, {.start = 1, .step = 3}).value() == close({1, 5, 9}));
}

TEST_CASE("parts: a slice's gradient is zero beside the slice") {
  Tape tape;
  const Var x = tape.variable(tensor({1, 2, 3, 4, 5}));
  tape.backward(sum(slice(x, {{.start = 1, .step = 2}}) * tensor({7, 8})));
  CHECK(x.gradient() == close({0, 7, 0, 8, 0}));
}

TEST_CASE("parts: a norm of a strided slice or a transposed matrix is that of its copy") {
  Tape tape;
  const Var x = tape.variable(three_by_four());
  const Var sliced = layer_norm(slice(x, {{}, {.step = 2}}));
  CHECK(sliced.value() == close({-1, 1, -1, 1, -1, 1}, 1e-4));  // rows [0, 2], [4, 6], [8, 10]
  CHECK(layer_norm(transpose(x)).value().at({0, 0}) == doctest::Approx(-1.2247448).epsilon(1e-5));  // [0, 4, 8]
}

TEST_CASE("parts: concat puts parts after one another, and its gradient takes them apart") {
  Tape tape;
  const Var a = tape.variable(tensor({{1, 2}, {3, 4}})), b = tape.variable(tensor({5, 6}).reshape({2, 1}));
  const Var y = concat({a, b}, -1);
  CHECK(y.value() == close({1, 2, 5, 3, 4, 6}));
  tape.backward(sum(y * tensor({{1, 2, 3}, {4, 5, 6}})));
  CHECK(a.gradient() == close({1, 2, 4, 5}));
  CHECK(b.gradient() == close({3, 6}));
}

TEST_CASE("parts: many parts are joined in order") {
  Tape tape;
  std::vector<Var> parts;
  for (int i = 0; i < 18; ++i) parts.push_back(tape.variable(full({1}, i)));
  const Var y = concat(parts, 0);
  CHECK(y.value() == close({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}));
  tape.backward(sum(square(y)));
  CHECK(parts[17].gradient().item() == 34.0);
}

TEST_CASE("parts: stack makes an axis, and split undoes concat") {
  Tape tape;
  const Var a = tape.variable(tensor({1, 2})), b = tape.variable(tensor({3, 4}));
  CHECK(stack({a, b}, 0).shape() == Shape{2, 2});
  CHECK(stack({a, b}, -1).value() == close({1, 3, 2, 4}));
  const std::vector<Var> parts = split(concat({a, b}, 0), {1, 3}, 0);
  CHECK(parts[1].value() == close({2, 3, 4}));
  CHECK(split(concat({a, b}, 0), 2, 0)[1].value() == close({3, 4}));
}

TEST_CASE("parts: squeeze, unsqueeze and flatten only change the shape") {
  Tape tape;
  const Var x = tape.variable(three_by_four());
  CHECK(unsqueeze(x, -1).shape() == Shape{3, 4, 1});
  CHECK(unsqueeze(x, 0).shape() == Shape{1, 3, 4});
  CHECK(squeeze(unsqueeze(x, 1), 1).shape() == Shape{3, 4});
  CHECK(flatten(unsqueeze(x, 0), 1).shape() == Shape{1, 12});
  CHECK(transpose(unsqueeze(x, 0), 0, -1).shape() == Shape{4, 3, 1});
}

TEST_CASE("parts: what doesn't fit is refused") {
  Tape tape;
  const Var x = tape.variable(three_by_four());
  const Var wide = tape.variable(ones({3, 4}, DType::float64));
  CHECK_THROWS_WITH_AS(slice(x, 0, {.step = 0}), doctest::Contains("slice: a step must be positive, got 0"), Error);
  CHECK_THROWS_WITH_AS(slice(x, {{}, {}, {}}), doctest::Contains("[3, 4] has 2 axes, but 3 ranges were given"), Error);
  CHECK_THROWS_WITH_AS(slice(x, 2, {}), doctest::Contains("slice: axis 2 is out of range for shape [3, 4]"), Error);
  CHECK_THROWS_WITH_AS(concat({x, transpose(x)}, 0),
                       doctest::Contains("concat: [3, 4] and [4, 3] differ in another axis than 0"), Error);
  CHECK_THROWS_WITH_AS(concat({x, wide}, 0), doctest::Contains("concat: the operands are float32 and float64"), Error);
  CHECK_THROWS_WITH_AS(concat(std::span<const Var>(), 0), doctest::Contains("at least one value is needed"), Error);
  CHECK_THROWS_WITH_AS(split(x, {1, 4}, 0), doctest::Contains("sizes [1, 4] don't add up to axis 0 of [3, 4]"), Error);
  CHECK_THROWS_WITH_AS(split(x, 3, 1), doctest::Contains("axis 1 of [3, 4] doesn't fall into 3 equal parts"), Error);
  CHECK_THROWS_WITH_AS(squeeze(x, 0), doctest::Contains("squeeze: axis 0 of [3, 4] has size 3, not 1"), Error);
  CHECK_THROWS_WITH_AS(unsqueeze(x, 4), doctest::Contains("unsqueeze: axis 4 is out of range"), Error);
  CHECK_THROWS_WITH_AS(flatten(x, 1, 0), doctest::Contains("flatten: axis 1 stands behind axis 0"), Error);
}
