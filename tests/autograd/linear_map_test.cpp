#include <jnorm/autograd/linear_map.hpp>

#include <doctest/doctest.h>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/matrix_measures.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/core/random.hpp>
#include <support/close.hpp>

using namespace jnorm;
using doctest::Approx;
using doctest::Contains;

namespace {

Tensor random(const Shape& shape, std::uint64_t seed) {
  Rng rng(seed);
  return randn(shape, rng, DType::float64);
}

Tensor row(std::initializer_list<double> values) { return tensor(values, DType::float64); }

// Something of everything: x [2, 4, 6] through a norm, attention and a residual.
Var small_block(const Var& x) {
  const Var normed = layer_norm(x, x.tape().constant(random({6}, 90)));
  const Var weight = x.tape().constant(random({6, 6}, 91));
  return x + gelu(linear(causal_attention(normed, normed, normed, 2), weight));
}

}  // namespace

TEST_CASE("jacobian: a linear map's Jacobian is its matrix") {
  Tape tape;
  const Var x = tape.variable(row({5, 6, 7}));
  const Var y = linear(x, tape.constant(tensor({{1, 2, 3}, {4, 5, 6}}, DType::float64)));
  CHECK(jacobian(y, x).shape() == Shape{2, 3});
  CHECK(jacobian(y, x) == close({1, 2, 3, 4, 5, 6}));
}

TEST_CASE("jacobian: row i belongs to output i, whatever the shapes") {
  Tape tape;
  const Var x = tape.variable(tensor({{1, 2}, {3, 4}}, DType::float64));
  CHECK(jacobian(square(transpose(x)), x) == close({2, 0, 0, 0, 0, 0, 6, 0, 0, 4, 0, 0, 0, 0, 0, 8}));
}

TEST_CASE("jacobian: more rows than one sweep carries") {
  Tape tape;
  const Var x = tape.variable(random({70}, 1));
  const Tensor J = jacobian(square(x), x);
  for (const Index i : {0, 31, 32, 63, 64, 69}) CHECK(J.at({i, i}) == 2.0 * x.value().at({i}));
  CHECK(J.at({33, 32}) == 0.0);
}

TEST_CASE("jacobian: of a scalar, a row") {
  Tape tape;
  const Var x = tape.variable(row({1, 2, 3}));
  CHECK(jacobian(sum(square(x)), x).shape() == Shape{1, 3});
  CHECK(jacobian(sum(square(x)), x) == close({2, 4, 6}));
}

TEST_CASE("jacobian: of a value by itself, the identity") {
  Tape tape;
  const Var x = tape.variable(row({1, 2, 3}));
  CHECK(linearize(x, x).distance_to_identity() == 0.0);
}

TEST_CASE("jacobian: exactly zero where y doesn't depend on x, or comes before it") {
  Tape tape;
  const Var x = tape.variable(row({1, 2}));
  const Var other = tape.variable(row({1, 2, 3}));
  CHECK(jacobian(square(other), x) == close({0, 0, 0, 0, 0, 0}, 0.0));
  CHECK(jacobian(x, square(x)) == close({0, 0, 0, 0}, 0.0));
  CHECK(linearize(square(other), x).apply(row({1, 1})) == close({0, 0, 0}, 0.0));
  const LinearMap zero = linearize(square(other), x);
  CHECK(zero.apply_transposed(row({1, 1, 1})).shape() == Shape{2});
  CHECK(zero.apply_transposed(ones({2, 3}, DType::float64)) == close({0, 0, 0, 0}, 0.0));
}

TEST_CASE("jacobian: between inner nodes, and of constants too") {
  Tape tape;
  const Var x = tape.constant(row({1, 2}));
  const Var inner = square(x);
  CHECK(jacobian(inner * 3.0, inner) == close({3, 0, 0, 3}));
  CHECK(jacobian(inner * 3.0, x) == close({6, 0, 0, 12}));
}

TEST_CASE("linearize: the map applied is the dense matrix applied, both ways, for one vector or several") {
  Tape tape;
  const Var x = tape.variable(random({2, 4, 6}, 2));
  const LinearMap J = linearize(small_block(x), x);
  const Tensor v = random({3, 2, 4, 6}, 3);
  const Tensor rows = v.reshape({3, 48});
  // 48 terms a sum, magnitudes near 1.
  CHECK(relative_distance(J.apply(v).reshape({3, 48}), matmul(rows, J.dense(), false, true)) < 1e-13);
  CHECK(relative_distance(J.apply_transposed(v).reshape({3, 48}), matmul(rows, J.dense())) < 1e-13);
  CHECK(J.apply(x.value()).shape() == x.shape());
}

TEST_CASE("linearize: <u, J v> = <J^T u, v>") {
  Tape tape;
  const Var x = tape.variable(random({2, 4, 6}, 4));
  const LinearMap J = linearize(small_block(x), x);
  const Tensor u = random({2, 4, 6}, 5);
  const Tensor v = random({2, 4, 6}, 6);
  CHECK(dot(u, J.apply(v)) == Approx(dot(J.apply_transposed(u), v)).epsilon(1e-12));
}

TEST_CASE("linearize: the measures of a diagonal map") {
  Tape tape;
  const Var x = tape.variable(row({0, 0, 0}));
  const LinearMap J = linearize(x * row({3, -4, 0.5}), x);
  CHECK(J.trace() == Approx(-0.5));
  CHECK(J.frobenius_norm() == Approx(5.024937810560445));
  CHECK(J.distance_to_identity() == Approx(3.122498999199199));
  CHECK(J.singular_values() == close({4, 3, 0.5}));
  CHECK(J.singular_values(2) == close({4, 3}));
  CHECK(J.spectral_norm() == Approx(4.0));
}

TEST_CASE("linearize: a float32 recording works too") {
  Tape tape;
  const Var x = tape.variable(tensor({1, 2}));
  CHECK(jacobian(square(x), x).dtype() == DType::float32);
  CHECK(linearize(square(x), x).spectral_norm() == Approx(4.0));
}

TEST_CASE("linearize: gradients of variables and parameters stay as they are") {
  Tape tape;
  Parameter weight("weight", tensor({{1, 2}, {3, 4}}, DType::float64));
  const Var x = tape.variable(row({1, 2}));
  linearize(linear(x, tape.parameter(weight)), x).dense();
  CHECK_FALSE(weight.has_gradient());
  CHECK_THROWS_AS(x.gradient(), Error);
}

TEST_CASE("linearize: a trace and a distance from the identity are for square maps") {
  Tape tape;
  const Var x = tape.variable(row({1, 2, 3}));
  const LinearMap J = linearize(sum(x), x);
  CHECK_THROWS_WITH_AS(J.trace(),
                       Contains("only a square map has one, but this takes [3] with 3 elements to [] with 1"), Error);
  CHECK_THROWS_AS(J.distance_to_identity(), Error);
  Rng rng(1);
  CHECK_THROWS_WITH_AS(J.estimate_trace(8, rng), Contains("only a square map has one"), Error);
  CHECK_THROWS_AS(J.estimate_distance_to_identity(8, rng), Error);
  CHECK_THROWS_WITH_AS(J.singular_values(2), Contains("there are 1, but 2 were asked for"), Error);
}

TEST_CASE("linearize: a few singular values of a large map, without its matrix, are those of the matrix") {
  Tape tape;
  const Var x = tape.variable(random({1, 48, 6}, 7));
  const Var y = small_block(x);  // N = 288
  const Tensor few = linearize(y, x).singular_values(3);
  const LinearMap J = linearize(y, x);
  J.dense();
  const Tensor right = J.singular_values(3);
  CHECK(relative_distance(few, right) < 1e-10);
  CHECK(linearize(y, x).spectral_norm() == Approx(right.at({0})).epsilon(1e-8));
  CHECK(linearize(y, x).spectral_norm({.most_iterations = 1}) == Approx(right.at({0})).epsilon(1e-10));
}

TEST_CASE("linearize: estimates of trace, norm and distance from the identity hold the truth") {
  Tape tape;
  const Var x = tape.variable(random({2, 4, 6}, 8));
  const LinearMap J = linearize(small_block(x), x);
  Rng rng(1);
  const auto check = [](const Estimate& estimate, double truth) {
    CHECK(estimate.samples == 400);
    CHECK(std::abs(estimate.value - truth) < 4 * estimate.standard_error);
    CHECK(estimate.standard_error < 0.05 * truth);
  };
  check(J.estimate_trace(400, rng), J.trace());
  check(J.estimate_frobenius_norm(400, rng), J.frobenius_norm());
  check(J.estimate_distance_to_identity(400, rng), J.distance_to_identity());
}

TEST_CASE("linearize: the log-volume of a diagonal map") {
  Tape tape;
  const Var x = tape.variable(row({0, 0, 0}));
  CHECK(linearize(x * row({3, -4, 0.5}), x).log_volume() == Approx(1.791759469228055));
}

TEST_CASE("linearize: an empty map has no singular values and no length") {
  Tape tape;
  const Var x = tape.variable(zeros({0, 3}, DType::float64));
  const LinearMap J = linearize(square(x), x);
  CHECK(J.dense().shape() == Shape{0, 0});
  CHECK(J.singular_values().size() == 0);
  CHECK(J.spectral_norm() == 0.0);
}

TEST_CASE("linearize: values of another tape, and of a tape that was reset, are refused") {
  Tape tape;
  Tape other;
  const Var x = tape.variable(row({1}));
  CHECK_THROWS_WITH_AS(linearize(x, other.variable(row({1}))), Contains("different tapes"), Error);
  CHECK_THROWS_WITH_AS(linearize(x, Var()), Contains("never recorded"), Error);
  const LinearMap J = linearize(square(x), x);
  tape.reset();
  CHECK_THROWS_WITH_AS(J.apply(row({1})), Contains("tape.reset()"), Error);
}
