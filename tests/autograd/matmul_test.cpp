#include <doctest/doctest.h>

#include <jnorm/autograd/ops.hpp>

#include "support/close.hpp"

using namespace jnorm;

TEST_CASE("matmul: X^T X of a matrix that isn't square") {
  Tape tape;
  const Var x = tape.variable(tensor({{1, 2, 3}, {1, 2, 3}}));
  CHECK(matmul(x, x, true, false).value() == close({2, 4, 6, 4, 8, 12, 6, 12, 18}));
}

TEST_CASE("matmul: batch axes broadcast, and the gradient sums over what repeated") {
  Tape tape;
  const Var a = tape.variable(ones({2, 1, 3, 4})), b = tape.variable(ones({5, 4, 2}));
  const Var y = matmul(a, b);
  CHECK(y.shape() == Shape{2, 5, 3, 2});
  tape.backward(sum(y));
  CHECK(a.gradient().shape() == a.shape());
  CHECK(a.gradient().at({0, 0, 0, 0}) == 10.0);  // 5 batches, 2 columns
  CHECK(b.gradient().at({0, 0, 0}) == 6.0);      // 2 batches, 3 rows
}

TEST_CASE("matmul: a weight serves all batches") {
  Tape tape;
  const Var x = tape.variable(tensor({1, 2, 3, 4}).reshape({2, 1, 2}));
  const Var weight = tape.variable(tensor({{1, 10}, {100, 1000}}));
  const Var y = matmul(x, weight);
  CHECK(y.shape() == Shape{2, 1, 2});
  CHECK(y.value() == close({201, 2010, 403, 4030}));
  CHECK(matmul(x, weight, false, true).value() == close({21, 2100, 43, 4300}));
}

TEST_CASE("matmul: a vector is a row on the left and a column on the right") {
  Tape tape;
  const Var v = tape.variable(tensor({1, 2})), m = tape.variable(tensor({{1, 10}, {100, 1000}}));
  CHECK(matmul(v, v).shape() == Shape{});
  CHECK(matmul(v, v).item() == 5.0);
  CHECK(matmul(v, m).value() == close({201, 2010}));
  CHECK(matmul(m, v).value() == close({21, 2100}));
  CHECK(matmul(m, v, true).value() == close({201, 2010}));
}

TEST_CASE("matmul: an inner size of 0 gives zeros") {
  Tape tape;
  CHECK(matmul(tape.variable(ones({2, 0})), tape.variable(ones({0, 3}))).value() == close({0, 0, 0, 0, 0, 0}, 0.0));
  CHECK(matmul(tape.variable(ones({0})), tape.variable(ones({0}))).item() == 0.0);
}

TEST_CASE("matmul: what doesn't fit is refused with both shapes") {
  Tape tape;
  const auto at = [&](const Shape& shape) { return tape.variable(ones(shape)); };
  CHECK_THROWS_WITH_AS(matmul(at({2, 3}), at({2, 3})),
                       doctest::Contains("matmul: the inner sizes of [2, 3] and [2, 3] are 3 and 2"), Error);
  CHECK_THROWS_WITH_AS(matmul(at({2, 3, 4}), at({5, 4, 3})),
                       doctest::Contains("matmul: shapes [2, 1, 1] and [5, 1, 1] don't broadcast"), Error);
  CHECK_THROWS_WITH_AS(matmul(at({}), at({2, 2})), doctest::Contains("expected matrices or vectors, got [] and [2, 2]"),
                       Error);
  CHECK_THROWS_WITH_AS(matmul(at({2}), at({2, 2}), true),
                       doctest::Contains("a vector can't be transposed, got [2] and [2, 2]"), Error);
}

TEST_CASE("linear: without input features every row is the bias, whose gradient sums over the rows") {
  Tape tape;
  const Var x = tape.variable(zeros({3, 0}, DType::float64)), weight = tape.variable(zeros({2, 0}, DType::float64));
  const Var bias = tape.variable(tensor({5, 7}, DType::float64));
  const Var y = linear(x, weight, bias);
  CHECK(y.value() == close({5, 7, 5, 7, 5, 7}));
  tape.backward(sum(y));
  CHECK(bias.gradient() == close({3, 3}));
  CHECK(tape.push_forward(y, bias, tensor({1, 2}, DType::float64)) == close({1, 2, 1, 2, 1, 2}));
  CHECK(tape.push_forward(y, x, zeros({3, 0}, DType::float64)) == close({0, 0, 0, 0, 0, 0}));
}
