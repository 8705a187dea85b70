#include <doctest/doctest.h>

#include <jnorm/autograd/ops.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

Tensor tokens_of(const Shape& shape, std::initializer_list<std::int32_t> values) {
  return indices(shape, std::vector<std::int32_t>(values));
}

}  // namespace

TEST_CASE("embedding: a row's gradient is the sum over its uses") {
  Tape tape;
  const Var table = tape.variable(tensor({{1, 2}, {3, 4}, {5, 6}}));
  const Var y = embedding(table, tokens_of({3}, {2, 0, 2}));
  CHECK(y.value() == close({5, 6, 1, 2, 5, 6}));
  tape.backward(y, {.cotangent = tensor({{1, 2}, {3, 4}, {5, 6}})});
  CHECK(table.gradient() == close({3, 4, 0, 0, 6, 8}));
}

TEST_CASE("embedding: the padding token's row is read, and gets no gradient") {
  Tape tape;
  const Var table = tape.variable(ones({10, 5}));
  std::vector<std::int32_t> values(std::size_t{256} * 3 * 7);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i % 10);
  const Var y = embedding(table, indices({256, 3, 7}, values), {.padding = 0});
  CHECK(y.value().at({0, 0, 0, 0}) == 1.0);
  tape.backward(sum(y));
  CHECK(table.gradient().at({0, 0}) == 0.0);
  CHECK(table.gradient().at({1, 0}) == 538.0);  // of 5376 tokens
}

TEST_CASE("embedding: padding stops the second derivative as well") {
  Tape tape;
  const Var table = tape.variable(tensor({2, 1}, std::vector<double>{2, 3}, DType::float64));
  const Var y = sum(square(embedding(table, tokens_of({3}, {0, 1, 1}), {.padding = 0})));
  const Var slope = tape.recorded_gradients(y, {&table, 1})[0];
  CHECK(slope.value() == close({0, 12}));
  CHECK(tape.gradients(sum(slope), {&table, 1})[0] == close({0, 4}));
}

TEST_CASE("embedding: a padding token that is no row is refused") {
  Tape tape;
  const Var table = tape.variable(ones({3, 2}));
  CHECK_THROWS_WITH_AS(embedding(table, tokens_of({1}, {0}), {.padding = 3}),
                       doctest::Contains("embedding: the padding token 3 is outside [0, 3)"), Error);
}
