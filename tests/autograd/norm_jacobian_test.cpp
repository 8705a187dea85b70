// The closed-form Jacobians of LayerNorm and RMSNorm, their spectra, and their agreement with the tape.

#include <jnorm/autograd/norm_jacobian.hpp>

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <jnorm/autograd/linear_map.hpp>
#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/linear_algebra.hpp>
#include <jnorm/core/matrix_measures.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/core/random.hpp>
#include <support/close.hpp>

using namespace jnorm;
using doctest::Approx;
using doctest::Contains;

namespace {

// Closed forms and float64 arithmetic on a few dozen numbers near 1: some hundred roundings at most.
constexpr double kRounding = 1e-13;

Tensor random(const Shape& shape, std::uint64_t seed) {
  Rng rng(seed);
  return randn(shape, rng, DType::float64);
}

Tensor row(std::initializer_list<double> values) { return tensor(values, DType::float64); }

Tensor tape_layer_norm(const Tensor& x, const Tensor& gamma, double eps) {
  Tape tape;
  const Var input = tape.variable(x);
  return jacobian(layer_norm(input, gamma.defined() ? tape.variable(gamma) : Var(), {}, eps), input);
}

Tensor tape_rms_norm(const Tensor& x, const Tensor& gamma, double eps) {
  Tape tape;
  const Var input = tape.variable(x);
  return jacobian(rms_norm(input, gamma.defined() ? tape.variable(gamma) : Var(), eps), input);
}

}  // namespace

TEST_CASE("norm_jacobian: LayerNorm's closed form [LN.5] is the tape's Jacobian, with gamma and without") {
  const Tensor x = random({3, 2, 7}, 1);
  for (const Tensor& gamma : {Tensor(), random({7}, 2)}) {
    for (const double eps : {0.0, 1e-5, 0.5}) {
      CHECK(relative_distance(layer_norm_jacobian(x, gamma, eps).dense(), tape_layer_norm(x, gamma, eps)) < kRounding);
    }
  }
}

TEST_CASE("norm_jacobian: RMSNorm's closed form [RMS.5] is the tape's Jacobian, with gamma and without") {
  const Tensor x = random({3, 2, 7}, 1);
  for (const Tensor& gamma : {Tensor(), random({7}, 2)}) {
    for (const double eps : {0.0, 1e-5, 0.5}) {
      CHECK(relative_distance(rms_norm_jacobian(x, gamma, eps).dense(), tape_rms_norm(x, gamma, eps)) < kRounding);
    }
  }
}

TEST_CASE("norm_jacobian: LayerNorm's spectrum is 0, eps/s^3 and H - 2 times 1/s [LN.6]") {
  // The variance is 1.25, so s^2 = 2.
  const NormJacobian J = layer_norm_jacobian(row({1, 2, 3, 4}), {}, 0.75);
  CHECK(J.eigenvalues() == close({0.7071067811865475, 0.7071067811865475, 0.2651650429449553, 0.0}, kRounding));
}

TEST_CASE("norm_jacobian: RMSNorm's spectrum is eps/r^3 and H - 1 times 1/r [RMS.6]") {
  // The mean square is 7.5, so r^2 = 8.
  const NormJacobian J = rms_norm_jacobian(row({1, 2, 3, 4}), {}, 0.5);
  CHECK(J.eigenvalues() ==
        close({0.3535533905932738, 0.3535533905932738, 0.3535533905932738, 0.02209708691207961}, kRounding));
}

TEST_CASE("norm_jacobian: the spectra in closed form are those of the dense matrices, to 1e-8") {
  const Tensor x = random({2, 16}, 3);
  for (const double eps : {0.0, 1e-5, 0.5}) {
    for (const NormJacobian& J : {layer_norm_jacobian(x, {}, eps), rms_norm_jacobian(x, {}, eps)}) {
      CHECK(norm(subtract(J.singular_values(), singular_values(J.dense()))) < 1e-8);
    }
  }
}

TEST_CASE("norm_jacobian: a shift of the row changes nothing, a stretch only what eps lets through [LN.6]") {
  const Tensor x = row({1, 2, 3, 4});
  const NormJacobian J = layer_norm_jacobian(x, {}, 0.75);
  CHECK(J.apply(row({1, 1, 1, 1})) == close({0, 0, 0, 0}, kRounding));
  CHECK(J.apply(row({-3, -1, 1, 3})) ==
        close({-0.7954951288348659, -0.2651650429449553, 0.2651650429449553, 0.7954951288348659}, kRounding));
}

TEST_CASE("norm_jacobian: s tr J is H - 2 + eps/s^2 for LayerNorm [LN.7] and H - 1 + eps/r^2 for RMSNorm [RMS.7]") {
  const Tensor x = row({1, 2, 3, 4});
  CHECK(std::sqrt(2.0) * layer_norm_jacobian(x, {}, 0.75).trace() == Approx(2.375).epsilon(kRounding));
  CHECK(std::sqrt(8.0) * rms_norm_jacobian(x, {}, 0.5).trace() == Approx(3.0625).epsilon(kRounding));
  CHECK(std::sqrt(1.25) * layer_norm_jacobian(x, {}, 0.0).trace() == Approx(2.0).epsilon(kRounding));
  CHECK(std::sqrt(7.5) * rms_norm_jacobian(x, {}, 0.0).trace() == Approx(3.0).epsilon(kRounding));
}

TEST_CASE("norm_jacobian: without eps LayerNorm has rank H - 2 and RMSNorm rank H - 1") {
  const Tensor x = row({1, 2, 4, 8, 16});
  CHECK(layer_norm_jacobian(x, {}, 0.0).singular_values().at({2}) > 0.1);
  CHECK(layer_norm_jacobian(x, {}, 0.0).singular_values().at({3}) == 0.0);
  CHECK(rms_norm_jacobian(x, {}, 0.0).singular_values().at({3}) > 0.1);
  CHECK(rms_norm_jacobian(x, {}, 0.0).singular_values().at({4}) == 0.0);
}

TEST_CASE("norm_jacobian: a LayerNorm over two features without eps passes no gradient") {
  const NormJacobian J = layer_norm_jacobian(row({1, 5}), {}, 0.0);
  CHECK(J.dense() == close({0, 0, 0, 0}, kRounding));
  CHECK(J.spectral_norm() == 0.0);
  CHECK(tape_layer_norm(row({1, 5}), {}, 0.0) == close({0, 0, 0, 0}, kRounding));
}

TEST_CASE("norm_jacobian: a row far below eps is only centred and divided by its root") {
  const NormJacobian J = layer_norm_jacobian(row({1e-9, 0, 0}), {}, 0.25);
  CHECK(J.singular_values() == close({2, 2, 0}, kRounding));
}

TEST_CASE("norm_jacobian: a row of one number") {
  CHECK(layer_norm_jacobian(row({3}), {}, 0.25).singular_values() == close({0}));
  CHECK(rms_norm_jacobian(row({3}), {}, 7.0).singular_values() == close({7.0 / 64.0}));
}

TEST_CASE("norm_jacobian: a constant gamma multiplies the singular values by its size") {
  const NormJacobian J = layer_norm_jacobian(row({1, 2, 3, 4}), row({-2, -2, -2, -2}), 0.75);
  CHECK(J.singular_values() == close({1.414213562373095, 1.414213562373095, 0.5303300858899107, 0.0}, kRounding));
  CHECK(J.eigenvalues() == close({0.0, -0.5303300858899107, -1.414213562373095, -1.414213562373095}, kRounding));
}

TEST_CASE("norm_jacobian: for another gamma the singular values are the dense matrix's, and at most max|gamma|/s") {
  const Tensor gamma = row({0.5, -3, 1, 2});
  const NormJacobian J = layer_norm_jacobian(row({1, 2, 3, 4}), gamma, 0.75);
  CHECK(norm(subtract(J.singular_values(), singular_values(J.dense()))) < kRounding);
  CHECK(J.spectral_norm() <= 3.0 / std::sqrt(2.0));
  CHECK(J.spectral_norm() > 1.5 / std::sqrt(2.0));
  CHECK_THROWS_WITH_AS(J.eigenvalues(), Contains("constant gamma only"), Error);
}

TEST_CASE("norm_jacobian: applying it is multiplying by the dense matrix, for one vector or several") {
  const Tensor x = random({2, 3, 5}, 4);
  const NormJacobian J = layer_norm_jacobian(x, random({5}, 5), 1e-5);
  const Tensor v = random({4, 2, 3, 5}, 6);
  const Tensor rows = v.reshape({4, 30});
  CHECK(relative_distance(J.apply(v).reshape({4, 30}), matmul(rows, J.dense(), false, true)) < kRounding);
  CHECK(relative_distance(J.apply_transposed(v).reshape({4, 30}), matmul(rows, J.dense())) < kRounding);
  CHECK(J.apply(x).shape() == x.shape());
}

TEST_CASE("norm_jacobian: <u, J v> = <J^T u, v>") {
  const Tensor x = random({6, 64}, 7);
  const Tensor u = random({6, 64}, 8);
  const Tensor v = random({6, 64}, 9);
  const NormJacobian J = layer_norm_jacobian(x, random({64}, 10), 1e-5);
  CHECK(dot(u, J.apply(v)) == Approx(dot(J.apply_transposed(u), v)).epsilon(1e-12));
}

TEST_CASE("norm_jacobian: products with dense matrices from both sides") {
  const NormJacobian J = rms_norm_jacobian(random({3, 4}, 11), random({4}, 12), 1e-5);
  const Tensor tall = random({12, 5}, 13);
  const Tensor wide = random({5, 12}, 14);
  CHECK(relative_distance(matmul(J, tall), matmul(J.dense(), tall)) < kRounding);
  CHECK(relative_distance(matmul(wide, J), matmul(wide, J.dense())) < kRounding);
}

TEST_CASE("norm_jacobian: the block of a row is the Jacobian of that row alone") {
  const Tensor gamma = random({4}, 15);
  const NormJacobian J = layer_norm_jacobian(tensor({{1, 2, 3, 5}, {4, 0, 4, 1}}), gamma, 1e-5);
  CHECK(relative_distance(J.row(1).dense(), layer_norm_jacobian(row({4, 0, 4, 1}), gamma, 1e-5).dense()) == 0.0);
  CHECK_THROWS_WITH_AS(J.row(2), Contains("there are 2 rows, but row 2"), Error);
}

TEST_CASE("norm_jacobian: a norm that was left out is the identity") {
  const NormJacobian J = identity_jacobian(row({1, 2}));
  CHECK(J.dense() == close({1, 0, 0, 1}, 0.0));
  CHECK(J.apply(row({3, 4})) == close({3, 4}, 0.0));
  CHECK(J.singular_values() == close({1, 1}, 0.0));
}

TEST_CASE("norm_jacobian: no rows, no matrix") {
  const NormJacobian J = layer_norm_jacobian(zeros({0, 4}), {}, 1e-5);
  CHECK(J.size() == 0);
  CHECK(J.singular_values().size() == 0);
  CHECK(J.spectral_norm() == 0.0);
}

TEST_CASE("norm_jacobian: where there is no derivative it says so") {
  CHECK_THROWS_WITH_AS(layer_norm_jacobian(tensor({{1, 2}, {3, 3}}), {}, 0.0),
                       Contains("row 1 of x is constant and eps is 0"), Error);
  CHECK_THROWS_WITH_AS(rms_norm_jacobian(row({0, 0}), {}, 0.0), Contains("row 0 of x is zero and eps is 0"), Error);
}

TEST_CASE("norm_jacobian: arguments that don't fit are refused") {
  const Tensor x = row({1, 2, 3});
  CHECK_THROWS_WITH_AS(layer_norm_jacobian(x, row({1, 1}), 1e-5), Contains("axis of x is 3, but gamma has shape [2]"),
                       Error);
  CHECK_THROWS_WITH_AS(layer_norm_jacobian(x, {}, -1.0), Contains("eps must not be negative, but is -1"), Error);
  CHECK_THROWS_AS(rms_norm_jacobian(x, {}, std::numeric_limits<double>::quiet_NaN()), Error);
  CHECK_THROWS_WITH_AS(layer_norm_jacobian(x, {}, 1e-5).apply(row({1, 2})), Contains("expected the shape [3]"), Error);
}
