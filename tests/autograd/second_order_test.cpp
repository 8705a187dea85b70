#include <jnorm/autograd/second_order.hpp>

#include <doctest/doctest.h>

#include <jnorm/autograd/custom.hpp>
#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/error.hpp>
#include <jnorm/core/matrix_measures.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/core/random.hpp>
#include <support/close.hpp>

using namespace jnorm;
using doctest::Contains;

namespace {

Tensor random(const Shape& shape, std::uint64_t seed) {
  Rng rng(seed);
  return randn(shape, rng, DType::float64);
}
Tensor row(std::initializer_list<double> values) { return tensor(values, DType::float64); }

}  // namespace

TEST_CASE("hessian: of a quadratic form x^T A x / 2, the symmetric part of A") {
  Tape tape;
  const Var x = tape.variable(random({1, 2}, 1));
  const Var A = tape.constant(tensor({{1, 2}, {6, 5}}, DType::float64));
  CHECK(hessian(sum(matmul(x, A) * x) * 0.5, x) == close({1, 4, 4, 5}, 1e-14));
}

TEST_CASE("hessian: of logsumexp, diag(p) - p p^T") {
  Tape tape;
  const Var x = tape.variable(row({0, 0.6931471805599453, 1.0986122886681098}));  // p = 1/6, 2/6, 3/6
  const Var y = log(sum(exp(x)));
  CHECK(hessian(y, x) ==
        close({5.0 / 36, -2.0 / 36, -3.0 / 36, -2.0 / 36, 8.0 / 36, -6.0 / 36, -3.0 / 36, -6.0 / 36, 9.0 / 36}, 1e-14));
}

TEST_CASE("hessian_vector_product: the Hessian's product, for a fused norm and attention too") {
  Tape tape;
  const Var x = tape.variable(random({1, 3, 4}, 1));
  const Var normed = layer_norm(x, tape.constant(random({4}, 2)));
  const Var y = sum(square(gelu(causal_attention(normed, normed, normed, 2))));
  const Tensor H = hessian(y, x);
  const Tensor v = random({1, 3, 4}, 3);
  const Tensor product = hessian_vector_product(y, x, v);
  CHECK(product.shape() == x.shape());
  CHECK(relative_distance(product.reshape({1, 12}), matmul(v.reshape({1, 12}), H)) < 1e-12);
  CHECK(relative_distance(H, transpose(tape.constant(H)).value()) < 1e-12);
}

TEST_CASE("hessian_vector_product: several variables, with the mixed derivatives") {
  // y = sum(a^2 b): d2/da2 = 2 b, d2/dadb = 2 a, d2/db2 = 0
  Tape tape;
  const Var a = tape.variable(row({1, 2})), b = tape.variable(row({3, 4}));
  const std::vector<Var> xs{a, b};
  const std::vector<Tensor> vs{row({1, 10}), row({100, 1000})};
  const std::vector<Tensor> products = hessian_vector_product(sum(square(a) * b), xs, vs);
  CHECK(products[0] == close({2 * 3 * 1 + 2 * 1 * 100, 2 * 4 * 10 + 2 * 2 * 1000}, 1e-14));
  CHECK(products[1] == close({2 * 1 * 1, 2 * 2 * 10}, 1e-14));
}

TEST_CASE("second order: exactly zero where y is linear in x, or doesn't depend on it") {
  Tape tape;
  const Var x = tape.variable(row({1, 2})), other = tape.variable(row({3}));
  CHECK(hessian_vector_product(sum(x * 3.0), x, row({1, 1})) == close({0, 0}, 0.0));
  CHECK(hessian_vector_product(sum(square(other)), x, row({1, 1})) == close({0, 0}, 0.0));
  CHECK(hessian(sum(square(other)), x) == close({0, 0, 0, 0}, 0.0));
  CHECK(hessian(other, other) == close({0}, 0.0));
}

TEST_CASE("second order: gradients of variables stay as they are") {
  Tape tape;
  const Var x = tape.variable(row({1, 2}));
  hessian(sum(square(x) * x), x);
  CHECK_THROWS_AS(x.gradient(), Error);
}

TEST_CASE("second order: of nothing") {
  Tape tape;
  const Var x = tape.variable(zeros({0, 3}, DType::float64));
  CHECK(hessian(sum(square(x)), x).shape() == Shape{0, 0});
  CHECK(hessian_vector_product(sum(square(x)), x, zeros({0, 3}, DType::float64)).shape() == Shape{0, 3});
}

TEST_CASE("second order: what doesn't fit is refused") {
  Tape tape;
  const Var x = tape.variable(row({1, 2}));
  const Var y = sum(square(x));
  CHECK_THROWS_WITH_AS(hessian_vector_product(x, x, row({1, 1})), Contains("y must have one element, got shape [2]"),
                       Error);
  CHECK_THROWS_WITH_AS(hessian_vector_product(y, x, row({1, 1, 1})), Contains("vector 0 must be [2] of float64"),
                       Error);
  CHECK_THROWS_AS(hessian_vector_product(y, x, tensor({1, 1})), Error);
  CHECK_THROWS_AS(hessian_vector_product(y, x, Tensor()), Error);
  CHECK_THROWS_AS(hessian_vector_product(y, std::vector<Var>{x, x}, std::vector<Tensor>{row({1, 1})}), Error);
  CHECK_THROWS_WITH_AS(hessian(square(x), x), Contains("hessian: y must have one element"), Error);
  CHECK_THROWS_AS(hessian(Var(), x), Error);
  CHECK_THROWS_AS(hessian(y, Var()), Error);
}

TEST_CASE("second order: an operation without a recorded derivative is refused by name") {
  Tape tape;
  const Var x = tape.variable(row({1, 2}));
  const auto doubled = custom(
      "doubled", [](auto& v, auto& y) { y = 2 * v; }, [](auto&, auto&, auto& dy, auto& dx) { dx = 2 * dy; });
  CHECK_THROWS_WITH_AS(hessian(sum(square(doubled(x))), x), Contains("doubled"), Error);
}
