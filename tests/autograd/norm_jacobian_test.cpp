// The closed-form Jacobians of the norms, their spectra, and their agreement with the tape and with plain loops.

#include <jnorm/autograd/norm_jacobian.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
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

using Values = std::vector<double>;
using Function = std::function<Values(const Values&)>;

// The norms as plain loops over index lists, to differentiate by differences: each list holds elements that share
// statistics. Elements in no list give 0.
Function normalizing(std::vector<std::vector<std::size_t>> lists, Values gamma, double eps) {
  return [lists = std::move(lists), gamma = std::move(gamma), eps](const Values& x) {
    Values y(x.size(), 0.0);
    for (const std::vector<std::size_t>& list : lists) {
      const auto count = static_cast<double>(list.size());
      double mean = 0.0, variance = 0.0;
      for (const std::size_t i : list) mean += x[i] / count;
      for (const std::size_t i : list) variance += (x[i] - mean) * (x[i] - mean) / count;
      for (const std::size_t i : list) y[i] = gamma[i] * (x[i] - mean) / std::sqrt(variance + eps);
    }
    return y;
  };
}

// d f / d x by central differences with one step of Richardson's extrapolation.
Tensor by_differences(const Function& f, const Values& x) {
  constexpr double step = 1e-3;  // errors: step^4 of truncation, 1e-16 / step of rounding
  const auto quotient = [&](std::size_t j, double h) {
    Values right = x, left = x;
    right[j] += h;
    left[j] -= h;
    Values y = f(right);
    const Values other = f(left);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = (y[i] - other[i]) / (2.0 * h);
    return y;
  };
  const auto n = static_cast<Index>(x.size());
  Tensor matrix = zeros({n, n}, DType::float64);
  for (std::size_t j = 0; j < x.size(); ++j) {
    const Values near = quotient(j, step), far = quotient(j, 2.0 * step);
    for (std::size_t i = 0; i < x.size(); ++i) {
      matrix.mutable_data<double>()[i * x.size() + j] = (4.0 * near[i] - far[i]) / 3.0;
    }
  }
  return matrix;
}

constexpr double kDifferences = 1e-9;

double largest_difference(const Tensor& a, const Tensor& b) {
  const Values difference = subtract(a, b).values();
  double largest = 0.0;
  for (const double value : difference) largest = std::max(largest, std::abs(value));
  return largest;
}

// Everything that a Jacobian says of itself, against its dense matrix.
void check_against_dense(const NormJacobian& J, const Shape& shape) {
  const Tensor dense = J.dense();
  const Index n = J.size();
  const Tensor v = random({3, n}, 100);
  CHECK(largest_difference(J.apply(v.reshape(shape.with_leading(3))).reshape({3, n}), matmul(v, dense, false, true)) <
        kRounding);
  CHECK(largest_difference(J.apply_transposed(v.reshape(shape.with_leading(3))).reshape({3, n}), matmul(v, dense)) <
        kRounding);
  const Tensor square = random({n, n}, 101);
  CHECK(relative_distance(matmul(J, square), matmul(dense, square)) < kRounding);
  CHECK(relative_distance(matmul(square, J), matmul(square, dense)) < kRounding);
  CHECK(std::abs(J.trace() - trace(dense)) < kRounding);
  CHECK(J.frobenius_norm() == Approx(norm(dense)).epsilon(kRounding));
  CHECK(J.distance_to_identity() == Approx(identity_distance(dense)).epsilon(kRounding));
  CHECK(largest_difference(J.singular_values(), singular_values(dense)) < kRounding * std::max(1.0, J.spectral_norm()));
  double sum = 0.0;
  for (const double value : J.eigenvalues().values()) sum += value;
  CHECK(std::abs(sum - trace(dense)) < kRounding);
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

TEST_CASE("norm_jacobian: for another gamma the singular values are at most max|gamma|/s") {
  const NormJacobian J = layer_norm_jacobian(row({1, 2, 3, 4}), row({0.5, -3, 1, 2}), 0.75);
  CHECK(J.bound() == doctest::Approx(3.0 / std::sqrt(2.0)));
  CHECK(J.spectral_norm() <= J.bound());
  CHECK(J.spectral_norm() > 0.5 * J.bound());
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

TEST_CASE("norm_jacobian: a block is the Jacobian of that row alone") {
  const Tensor gamma = random({4}, 15);
  const NormJacobian J = layer_norm_jacobian(tensor({{1, 2, 3, 5}, {4, 0, 4, 1}}), gamma, 1e-5);
  CHECK(relative_distance(J.block(1).dense(), layer_norm_jacobian(row({4, 0, 4, 1}), gamma, 1e-5).dense()) == 0.0);
  CHECK_THROWS_WITH_AS(J.block(2), Contains("there are 2 blocks, but block 2"), Error);
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

TEST_CASE("norm_jacobian: ScaleNorm's Jacobian is that of its definition, by differences") {
  const Tensor x = random({2, 5}, 20);
  for (const double eps : {0.0, 0.5}) {
    const Function scale_norm = [eps](const Values& rows) {
      Values y(rows.size());
      for (std::size_t first = 0; first < rows.size(); first += 5) {
        double sum = 0.0;
        for (std::size_t i = first; i < first + 5; ++i) sum += rows[i] * rows[i];
        for (std::size_t i = first; i < first + 5; ++i) y[i] = 1.5 * rows[i] / std::sqrt(sum + eps);
      }
      return y;
    };
    const NormJacobian J = scale_norm_jacobian(x, 1.5, eps);
    CHECK(largest_difference(J.dense(), by_differences(scale_norm, x.values())) < kDifferences);
    check_against_dense(J, {2, 5});
  }
}

TEST_CASE("norm_jacobian: GroupNorm's Jacobian is that of its definition, gamma by channel, by differences") {
  // [2, 4, 3] in two groups: elements 0..5, 6..11, 12..17, 18..23; channel i / 3 % 4.
  const Tensor x = random({2, 4, 3}, 21);
  const Values gamma{0.5, -2.0, 1.5, 0.0};
  std::vector<std::vector<std::size_t>> groups(4);
  Values gammas(24);
  for (std::size_t i = 0; i < 24; ++i) {
    groups[i / 6].push_back(i);
    gammas[i] = gamma[i / 3 % 4];
  }
  const NormJacobian J = group_norm_jacobian(x, 2, tensor({4}, gamma, DType::float64), 0.1);
  CHECK(J.block_count() == 4);
  CHECK(largest_difference(J.dense(), by_differences(normalizing(groups, gammas, 0.1), x.values())) < kDifferences);
  check_against_dense(J, {2, 4, 3});
}

TEST_CASE("norm_jacobian: BatchNorm's Jacobian couples the samples of a channel and nothing else, by differences") {
  // [3, 2, 2]: channel i / 2 % 2.
  const Tensor x = random({3, 2, 2}, 22);
  const Values gamma{0.5, -2.0};
  std::vector<std::vector<std::size_t>> channels(2);
  Values gammas(12);
  for (std::size_t i = 0; i < 12; ++i) {
    channels[i / 2 % 2].push_back(i);
    gammas[i] = gamma[i / 2 % 2];
  }
  const NormJacobian J = batch_norm_jacobian(x, tensor({2}, gamma, DType::float64), 0.1);
  CHECK(J.block_count() == 2);
  CHECK(largest_difference(J.dense(), by_differences(normalizing(channels, gammas, 0.1), x.values())) < kDifferences);
  check_against_dense(J, {3, 2, 2});
}

TEST_CASE("norm_jacobian: BatchNorm of features, whatever their values' place in memory") {
  // Channel 1 of [5, 3] holds 1..5 with variance 2; rank 3 of 5, s^2 = 2.
  const Tensor x = tensor({{7, 1, 0}, {7, 2, 9}, {1, 3, 4}, {0, 4, 4}, {5, 5, 2}}, DType::float64);
  const NormJacobian J = batch_norm_jacobian(x, {}, 0.0).block(1);
  CHECK(J.apply(row({1, 0, 0, 0, 0})) == close({0.282842712, -0.282842712, -0.141421356, 0.0, 0.141421356}));
  CHECK(J.rank() == 3);
  CHECK(std::sqrt(2.0) * J.trace() == Approx(3.0).epsilon(kRounding));  // [BN.7]
}

TEST_CASE("norm_jacobian: positions that don't count have zero rows and columns, and NaN there does no harm") {
  // One channel with 1..5 and five positions of padding: mean 3, variance 2.
  Values padded{1, 2, 3, 4, 5, 0, 0, 0, 0, std::numeric_limits<double>::quiet_NaN()};
  const Tensor x = tensor({10, 1}, padded, DType::float64);
  const Tensor mask = row({1, 1, 1, 1, 1, 0, 0, 0, 0, 0});
  const NormJacobian J = batch_norm_jacobian(x, {}, 0.5, mask);
  const Tensor counted =
      batch_norm_jacobian(tensor({5, 1}, std::span(padded).first(5), DType::float64), {}, 0.5).dense();
  for (Index i = 0; i < 10; ++i) {
    for (Index j = 0; j < 10; ++j) {
      CHECK(J.dense().at({i, j}) == (i < 5 && j < 5 ? counted.at({i, j}) : 0.0));
    }
  }
  CHECK(J.null_space_dimension() == 6);  // five positions and the shift
  CHECK(J.log_volume() == -std::numeric_limits<double>::infinity());
  check_against_dense(J, {10, 1});
}

TEST_CASE("norm_jacobian: a mask counts samples, [N] or [N, 1, 1], or positions, [N, 1, T]") {
  const Tensor x = random({3, 2, 2}, 23);
  const Tensor samples = row({1, 0, 1});
  const Tensor by_sample = batch_norm_jacobian(x, {}, 0.1, samples).dense();
  CHECK(relative_distance(batch_norm_jacobian(x, {}, 0.1, samples.reshape({3, 1, 1})).dense(), by_sample) == 0.0);
  const Tensor positions = row({1, 1, 0, 0, 1, 1}).reshape({3, 1, 2});
  CHECK(relative_distance(batch_norm_jacobian(x, {}, 0.1, positions).dense(), by_sample) == 0.0);
  CHECK(batch_norm_jacobian(x, {}, 0.1, zeros({3})).spectral_norm() == 0.0);
}

TEST_CASE("norm_jacobian: BatchNorm in evaluation is diagonal") {
  const NormJacobian fresh = batch_norm_evaluation_jacobian(random({1, 2, 3}, 24), {}, row({1, 1}), 1e-5);
  CHECK(fresh.apply(ones({1, 2, 3})) == close({0.999995, 0.999995, 0.999995, 0.999995, 0.999995, 0.999995}));
  const NormJacobian J = batch_norm_evaluation_jacobian(tensor({{5, 6}}), row({2, -3}), row({4, 0}), 1e-5);
  CHECK(J.dense() == close({0.99999875, 0.0, 0.0, -948.6832980505138}));
  CHECK(J.singular_values() == close({948.6832980505138, 0.99999875}));
  CHECK(batch_norm_evaluation_jacobian(zeros({0, 2, 3}), row({2, -3}), row({4, 0}), 1e-5).size() == 0);
}

TEST_CASE("norm_jacobian: dynamic tanh is diagonal, and doesn't vanish before its time [DYT.5]") {
  const NormJacobian J = dynamic_tanh_jacobian(row({1, 0}), 0.5, row({2, -3}));
  CHECK(J.apply(row({3, 1})) == close({2.359343198897782, -1.5}, 1e-15));
  CHECK(dynamic_tanh_jacobian(row({20}), 1.0, {}).trace() == Approx(1.6993417021166355e-17).epsilon(1e-14));
  check_against_dense(dynamic_tanh_jacobian(random({3, 4}, 25), 0.7, random({4}, 26)), {3, 4});
}

TEST_CASE("norm_jacobian: dynamic tanh is flat where it is saturated") {
  CHECK(dynamic_tanh_jacobian(row({1000, -1000}), 1.0, {}).dense() == close({0, 0, 0, 0}, 0.0));
}

TEST_CASE("norm_jacobian: each norm's row follows from another's") {
  const Tensor x = random({3, 4}, 27);
  const Tensor gamma = random({4}, 28);
  const auto same = [](const NormJacobian& a, const NormJacobian& b) {
    return relative_distance(a.dense(), b.dense()) < 1e-15;
  };
  CHECK(same(group_norm_jacobian(x, 1, gamma, 0.1), layer_norm_jacobian(x, gamma, 0.1)));
  CHECK(same(scale_norm_jacobian(x, 2.0, 0.4), rms_norm_jacobian(x, {}, 0.1)));  // g = sqrt(H), eps = H eps
  const Tensor column = x.reshape({12, 1});
  CHECK(same(batch_norm_jacobian(column, {}, 0.1), layer_norm_jacobian(x.reshape({12}), {}, 0.1)));
}

TEST_CASE("norm_jacobian: s tr J, rank and null space without eps, norm by norm") {
  const Tensor x = row({1, 2, 4, 8, 16});  // mean square 68.2
  const NormJacobian scale = scale_norm_jacobian(x, 2.0, 0.0);
  CHECK(std::sqrt(341.0) / 2.0 * scale.trace() == Approx(4.0).epsilon(kRounding));  // [SN.7]
  CHECK(scale.rank() == 4);
  CHECK(std::abs(norm(scale.apply(x))) < kRounding);

  const NormJacobian group = group_norm_jacobian(random({1, 4, 3}, 29), 2, random({4}, 30), 0.0);
  CHECK(group.null_space_dimension() == 4);  // two a group
  CHECK(layer_norm_jacobian(x, row({1, 2, 3, 4, 5}), 0.0).rank() == 3);
  CHECK(layer_norm_jacobian(x, row({0, 2, 3, 4, 5}), 0.0).rank() == 3);  // not 2: gamma's zero takes none of the three
  CHECK(layer_norm_jacobian(x, row({0, 0, 0, 4, 5}), 0.0).rank() == 2);
  CHECK(layer_norm_jacobian(x, row({1, 2, 3, 4, 5}), 1e-5).rank() == 4);
  CHECK(layer_norm_jacobian(x, row({1, 2, 3, 4, 5}), 1e-5).rank(1e-3) == 3);
  CHECK_THROWS_WITH_AS(scale.rank(1.0), Contains("expected a tolerance in [0, 1), got 1"), Error);
}

TEST_CASE("norm_jacobian: the null space is what is below the tolerance") {
  const NormJacobian J = rms_norm_jacobian(row({1, 1}), {}, 0.25);  // singular values 1/r and eps/r^3, r^2 = 1.25
  CHECK(J.null_space_dimension(0.19) == 0);
  CHECK(J.null_space_dimension(0.21) == 1);
}

TEST_CASE("norm_jacobian: groups and batches of two without eps pass no gradient") {
  CHECK(batch_norm_jacobian(tensor({{1, 9}, {5, 2}}), row({2, 3}), 0.0).frobenius_norm() < kRounding);
  CHECK(group_norm_jacobian(tensor({{1, 9, 5, 2}}), 2, row({2, 3, 4, 5}), 0.0).frobenius_norm() < kRounding);
  CHECK(group_norm_jacobian(tensor({{1, 9}}), 2, {}, 0.25).spectral_norm() == 0.0);  // one number a group
}

TEST_CASE("norm_jacobian: the zero row of ScaleNorm without eps has the zero Jacobian, the sub-gradient's convention") {
  const NormJacobian J = scale_norm_jacobian(tensor({{0, 0}, {3, 4}}), 2.0, 0.0);
  CHECK(J.apply(tensor({{1, 1}, {1, 0}})) == close({0, 0, 0.256, -0.192}));
  CHECK(scale_norm_jacobian(row({0, 0}), 2.0, 0.25).dense() == close({4, 0, 0, 4}, kRounding));
}

TEST_CASE("norm_jacobian: log_volume is the sum of the singular values' logarithms") {
  const NormJacobian J = layer_norm_jacobian(row({1, 2, 3, 4}), row({0.5, -3, 1, 2}), 0.75);
  CHECK(J.log_volume() == -std::numeric_limits<double>::infinity());
  const NormJacobian rms = rms_norm_jacobian(random({2, 6}, 31), random({6}, 32), 1e-3);
  double sum = 0.0;
  for (const double value : rms.singular_values().values()) sum += std::log(value);
  CHECK(rms.log_volume() == Approx(sum).epsilon(kRounding));
}

TEST_CASE("norm_jacobian: elements that no block holds make the log_volume minus infinity") {
  CHECK(scale_norm_jacobian(tensor({{0, 0}}), 2.0, 0.0).log_volume() == -std::numeric_limits<double>::infinity());
}

TEST_CASE("norm_jacobian: spectra for hundreds of rows and gammas are LAPACK's") {
  double worst = 0.0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Index width = 1 + static_cast<Index>(seed % 17);
    const Tensor x = random({width}, 1000 + seed);
    Tensor gamma = random({width}, 2000 + seed);
    if (seed % 3 == 0) gamma.mutable_data<double>()[0] = 0.0;
    const double eps = seed % 2 == 0 ? 1e-5 : 1e-12;
    for (const NormJacobian& J : {layer_norm_jacobian(x, gamma, eps), rms_norm_jacobian(x, gamma, eps)}) {
      const Tensor expected = singular_values(J.dense());
      worst = std::max(worst, largest_difference(J.singular_values(), expected) / std::max(1.0, J.spectral_norm()));
    }
  }
  CHECK(worst < 1e-14);
}

TEST_CASE("norm_jacobian: an eigenvalue makes J - lambda I singular, for gamma of one sign and of both") {
  for (const bool positive : {true, false}) {
    const Tensor gamma = positive ? row({0.5, 3, 1, 2, 2}) : row({0.5, -3, 1, -2, 2});
    const NormJacobian J = layer_norm_jacobian(random({5}, 33), gamma, 0.3);
    const Tensor dense = J.dense();
    for (const double lambda : J.eigenvalues().values()) {
      const Tensor shifted = subtract(dense, affine(identity(5, DType::float64), lambda, 0.0));
      CHECK(singular_values(shifted).at({4}) < kRounding);
    }
  }
}

TEST_CASE("norm_jacobian: neither a large mean nor squares out of range spoil it") {
  const NormJacobian J = layer_norm_jacobian(row({40000, 40001, 40002, 40003}), {}, 0.75);
  CHECK(relative_distance(J.dense(), layer_norm_jacobian(row({1, 2, 3, 4}), {}, 0.75).dense()) < kRounding);
  const NormJacobian large = rms_norm_jacobian(row({1e200, 2e200}), {}, 0.0);
  CHECK(large.spectral_norm() == Approx(std::sqrt(1.0 / 2.5) * 1e-200).epsilon(kRounding));
  CHECK_THROWS_WITH_AS(layer_norm_jacobian(row({0.1, 0.1, 0.1}), {}, 0.0), Contains("row 0 of x is constant"), Error);
}

TEST_CASE("norm_jacobian: empty shapes") {
  CHECK(group_norm_jacobian(zeros({0, 4, 3}), 2, {}, 1e-5).size() == 0);
  CHECK(group_norm_jacobian(zeros({2, 4, 0}), 2, {}, 1e-5).dense().shape() == Shape{0, 0});
  CHECK(batch_norm_jacobian(zeros({0, 4}), {}, 1e-5).apply(zeros({0, 4})).shape() == Shape{0, 4});
  CHECK(batch_norm_jacobian(zeros({3, 0}), {}, 1e-5).distance_to_identity() == 0.0);
  CHECK(scale_norm_jacobian(zeros({3, 0}), 1.0, 0.0).log_volume() == 0.0);
  CHECK(dynamic_tanh_jacobian(zeros({0}), 1.0, {}).rank() == 0);
  CHECK(batch_norm_jacobian(row({3}).reshape({1, 1}), {}, 0.25).singular_values() == close({0}));
}

TEST_CASE("norm_jacobian: the other norms' arguments that don't fit are refused") {
  const Tensor x = random({2, 4, 3}, 34);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_WITH_AS(group_norm_jacobian(x, 0, {}, 1e-5), Contains("at least one group, got 0"), Error);
  CHECK_THROWS_WITH_AS(group_norm_jacobian(x, -2, {}, 1e-5), Contains("at least one group, got -2"), Error);
  CHECK_THROWS_WITH_AS(group_norm_jacobian(x, 3, {}, 1e-5), Contains("3 groups don't divide 4 channels"), Error);
  CHECK_THROWS_WITH_AS(group_norm_jacobian(x, 2, row({1, 1, 1}), 1e-5), Contains("4 channels, but gamma has shape [3]"),
                       Error);
  CHECK_THROWS_WITH_AS(group_norm_jacobian(row({1, 2}), 1, {}, 1e-5), Contains("expected x [N, C, ...], got [2]"),
                       Error);
  CHECK_THROWS_WITH_AS(batch_norm_jacobian(x, {}, -1.0), Contains("eps must not be negative, but is -1"), Error);
  CHECK_THROWS_WITH_AS(scale_norm_jacobian(x, 1.0, nan), Contains("eps must not be negative, but is nan"), Error);
  CHECK_THROWS_WITH_AS(batch_norm_jacobian(x, {}, 1e-5, row({1, 1, 1})),
                       Contains("a mask is [2], [2, 1, 1] or [2, 1, 3], but it has shape [3]"), Error);
  CHECK_THROWS_WITH_AS(batch_norm_jacobian(tensor({{1, 2}, {1, 3}}), {}, 0.0), Contains("channel 0 of x is constant"),
                       Error);
  CHECK_THROWS_WITH_AS(batch_norm_evaluation_jacobian(x, {}, row({1, 1, -4, 1}), 1e-5),
                       Contains("running_variance must not be negative, but is -4 in channel 2"), Error);
  CHECK_THROWS_WITH_AS(batch_norm_evaluation_jacobian(x, {}, row({1}), 1e-5),
                       Contains("x has 4 channels, but running_variance has shape [1]"), Error);
  CHECK_THROWS_WITH_AS(batch_norm_evaluation_jacobian(x, {}, row({1, 0, 1, 1}), 0.0), Contains("both 0 in channel 1"),
                       Error);
  CHECK_THROWS_WITH_AS(dynamic_tanh_jacobian(x, nan, {}), Contains("alpha holds nan"), Error);
  CHECK_THROWS_WITH_AS(rms_norm_jacobian(row({1, nan}), {}, 1e-5), Contains("element 1 of x is nan"), Error);
}
