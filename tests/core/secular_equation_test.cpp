// The eigenvalues of a diagonal matrix times a projection, against closed forms and against LAPACK.

#include <jnorm/core/secular_equation.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <doctest/doctest.h>

#include <jnorm/core/error.hpp>
#include <jnorm/core/linear_algebra.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/core/random.hpp>
#include <jnorm/core/tensor.hpp>
#include <support/close.hpp>

using namespace jnorm;
using doctest::Approx;
using doctest::Contains;
using Directions = std::vector<ProjectedDirection>;

namespace {

constexpr double kUnit = 2.220446049250313e-16;

std::vector<double> drawn(Index n, Rng& rng) { return randn({n}, rng, DType::float64).values(); }

std::vector<double> normalized(std::vector<double> v) {
  double square = 0.0;
  for (const double value : v) square += value * value;
  for (double& value : v) value /= std::sqrt(square);
  return v;
}

std::vector<double> orthogonal_to(const std::vector<double>& e, std::vector<double> v) {
  for (int pass = 0; pass < 2; ++pass) {
    double along = 0.0;
    for (std::size_t i = 0; i < v.size(); ++i) along += e[i] * v[i];
    for (std::size_t i = 0; i < v.size(); ++i) v[i] -= along * e[i];
  }
  return normalized(std::move(v));
}

// The constant direction, as in LayerNorm, and a random one, as far as `n` has room for them.
Directions directions_of(Index n, double kept_of_first, double kept_of_second, Rng& rng) {
  Directions both{{normalized(std::vector<double>(static_cast<std::size_t>(n), 1.0)), kept_of_first}};
  if (n > 1) both.push_back({orthogonal_to(both[0].unit, drawn(n, rng)), kept_of_second});
  return both;
}

// diag(gamma) P, the matrix itself.
Tensor dense(const std::vector<double>& gamma, const Directions& directions) {
  const auto n = static_cast<Index>(gamma.size());
  Tensor matrix = zeros({n, n}, DType::float64);
  double* next = matrix.mutable_data<double>();
  for (std::size_t i = 0; i < gamma.size(); ++i) {
    for (std::size_t j = 0; j < gamma.size(); ++j) {
      double entry = i == j ? 1.0 : 0.0;
      for (const auto& [unit, kept] : directions) entry -= (1.0 - kept) * unit[i] * unit[j];
      *next++ = gamma[i] * entry;
    }
  }
  return matrix;
}

// The singular values of diag(gamma) P as square roots of eigenvalues.
std::vector<double> singular_values_of(const std::vector<double>& gamma, Directions directions) {
  std::vector<double> squares;
  for (const double value : gamma) squares.push_back(value * value);
  for (auto& [unit, kept] : directions) kept *= kept;
  std::vector<double> values = scaled_projection_eigenvalues(squares, directions);
  for (double& value : values) value = std::sqrt(value);
  return values;
}

// LAPACK's singular values are off by some n roundings of the largest (LAPACK Users' Guide, 4.9); how many follows from
// the BLAS kernels that the processor gets.
double error_of_lapack(std::size_t n, double largest) { return 10.0 * static_cast<double>(n) * kUnit * largest; }

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

}  // namespace

TEST_CASE("secular_equation: singular values are LAPACK's, for gammas of every kind and directions kept by any part") {
  Rng rng(1);
  double worst = 0.0;
  for (int round = 0; round < 400; ++round) {
    const Index n = 1 + round % 23;
    std::vector<double> gamma = drawn(n, rng);
    for (std::size_t i = 0; i < gamma.size(); ++i) {
      if (round % 4 == 1) gamma[i] = std::round(gamma[i]);  // repeated, and zeros among them
      if (round % 4 == 2 && i % 3 == 0) gamma[i] *= 1e-9;
      if (round % 4 == 3 && i % 2 == 0) gamma[i] = gamma[0];
    }
    for (const double kept : {0.0, 1e-12, 1e-5, 0.3, 1.0 - 1e-10, 1.0}) {
      const Directions directions = directions_of(n, round % 3 == 0 ? kept * kept : 0.0, kept, rng);
      const std::vector<double> expected = singular_values(dense(gamma, directions)).values();
      const double scale = std::max(1.0, *std::max_element(expected.begin(), expected.end()));
      const double difference = largest_difference(singular_values_of(gamma, directions), expected);
      worst = std::max(worst, difference / error_of_lapack(gamma.size(), scale));
    }
  }
  CHECK(worst < 1.0);
}

TEST_CASE("secular_equation: gammas that differ by a few roundings are told apart") {
  // What is left are the directions (1, 1, -1, -1)/2 and (1, -1, -1, 1)/2, on which diag(0, 1, 2, 3) is
  // [[1.5, -0.5], [-0.5, 1.5]]. (LAPACK is off by the size of the whole cluster here.)
  constexpr double step = 1e-14;
  const std::vector<double> gamma{1.0, 1.0 + step, 1.0 + 2 * step, 1.0 + 3 * step};
  const Directions directions{{{0.5, 0.5, 0.5, 0.5}, 0.0}, {{0.5, -0.5, 0.5, -0.5}, 0.3}};
  const std::vector<double> values = singular_values_of(gamma, directions);
  CHECK(std::abs(values[0] - (1.0 + 2 * step)) <= 2 * kUnit);
  CHECK(std::abs(values[1] - (1.0 + step)) <= 2 * kUnit);
  CHECK(std::abs(values[2] - 0.3 * (1.0 + 1.5 * step)) <= 2 * kUnit);
  CHECK(values[3] == 0.0);
}

TEST_CASE("secular_equation: tiny singular values are right to 1e-15 of the largest, where their squares would drown") {
  // The determinant of P is kept, and of diag(gamma) the product: n - 1 values are of the order of 1.
  Rng rng(2);
  for (const double kept : {1e-5, 1e-9, 1e-14}) {
    const Directions directions{{normalized(drawn(8, rng)), kept}};
    const std::vector<double> gamma{1, 2, 3, 4, -5, 6, 7, 8};
    const std::vector<double> values = singular_values_of(gamma, directions);
    double product = 1.0;
    for (const double value : values) product *= value;
    CHECK(product / (40320.0 * kept) == Approx(1.0).epsilon(1e-13));
  }
}

TEST_CASE("secular_equation: what a zero leaves of two directions, one kept a little, is not its rounding error") {
  // gamma of 0 and 1e-13 put weights into the 2 x 2 matrix that outweigh the rest 1e26 times.
  Rng rng(3);
  for (const double small : {0.0, 1e-13}) {
    for (int round = 0; round < 50; ++round) {
      const std::vector<double> gamma{small, 1, 0.5, 2, small, 1};
      const Directions directions = directions_of(6, 0.0, 1e-10, rng);
      const std::vector<double> expected = singular_values(dense(gamma, directions)).values();
      CHECK(largest_difference(singular_values_of(gamma, directions), expected) < error_of_lapack(6, expected[0]));
    }
  }
}

TEST_CASE(
    "secular_equation: eigenvalues of diag(d) P are real for d of any signs, and those of P^(1/2) diag(d) P^(1/2)") {
  Rng rng(4);
  double worst = 0.0;
  for (int round = 0; round < 200; ++round) {
    const Index n = 1 + round % 12;
    std::vector<double> d = drawn(n, rng);
    if (round % 3 == 1) std::transform(d.begin(), d.end(), d.begin(), [](double value) { return std::abs(value); });
    if (round % 3 == 2) std::transform(d.begin(), d.end(), d.begin(), [](double value) { return std::round(value); });
    const double kept = round % 4 == 0 ? 0.0 : 0.01 * (round % 4);
    const Directions directions = directions_of(n, 0.0, kept, rng);
    Directions roots = directions;
    for (auto& [unit, part] : roots) part = std::sqrt(part);
    // P^(1/2) diag(d) P^(1/2) + 10 I is positive definite, so that its singular values are its eigenvalues.
    const Tensor root = dense(std::vector<double>(d.size(), 1.0), roots);
    Tensor shifted = matmul(root, matmul(dense(d, {}), root));
    shifted = add(shifted, affine(identity(n, DType::float64), 10.0, 0.0));
    std::vector<double> expected = singular_values(shifted).values();
    const double allowed = error_of_lapack(d.size(), expected[0]);  // of the shifted matrix
    for (double& value : expected) value -= 10.0;
    worst = std::max(worst, largest_difference(scaled_projection_eigenvalues(d, directions), expected) / allowed);
  }
  CHECK(worst < 1.0);
}

TEST_CASE("secular_equation: among equal d, all but as many as there are directions stay") {
  Rng rng(5);
  const std::vector<double> d(6, 0.7);
  const std::vector<double> values = scaled_projection_eigenvalues(d, directions_of(6, 0.0, 0.25, rng));
  CHECK(std::count(values.begin(), values.end(), 0.7) == 4);
  CHECK(values[4] == Approx(0.175).epsilon(4 * kUnit));
  CHECK(values[5] == 0.0);
}

TEST_CASE("secular_equation: without directions the eigenvalues are d") {
  CHECK(scaled_projection_eigenvalues(std::vector<double>{1, -2, 3, 0}, {}) == std::vector<double>{3, 1, 0, -2});
}

TEST_CASE("secular_equation: an element that no direction touches keeps its d") {
  // The rest is diag(1, 2) (I - e e^T) with e = (0.6, 0.8): one eigenvalue 0, and the trace 0.64 + 0.72.
  const Directions directions{{{0.6, 0.0, 0.8}, 0.0}};
  const std::vector<double> values = scaled_projection_eigenvalues(std::vector<double>{1, 1.5, 2}, directions);
  CHECK(values[0] == Approx(1.5).epsilon(2 * kUnit));
  CHECK(values[1] == Approx(1.36).epsilon(2 * kUnit));
  CHECK(values[2] == 0.0);
}

TEST_CASE("secular_equation: sizes 0, 1 and 2") {
  CHECK(scaled_projection_eigenvalues({}, {}).empty());
  const Directions one{{{1.0}, 0.25}};
  CHECK(scaled_projection_eigenvalues(std::vector<double>{8}, one)[0] == Approx(2.0).epsilon(2 * kUnit));
  CHECK(scaled_projection_eigenvalues(std::vector<double>{-8}, one)[0] == Approx(-2.0).epsilon(2 * kUnit));
  const Directions both{{{0.6, 0.8}, 0.0}, {{0.8, -0.6}, 0.0}};
  CHECK(scaled_projection_eigenvalues(std::vector<double>{3, 5}, both) == std::vector<double>{0, 0});
}

TEST_CASE("secular_equation: very large and very small numbers") {
  const Directions directions{{{0.6, 0.8}, 0.0}};
  CHECK(scaled_projection_eigenvalues(std::vector<double>{1e300, 2e300}, directions)[0] ==
        Approx(1.36e300).epsilon(1e-15));
  CHECK(scaled_projection_eigenvalues(std::vector<double>{1e-300, 2e-300}, directions)[0] ==
        Approx(1.36e-300).epsilon(1e-15));
}

TEST_CASE("secular_equation: arguments that make no sense are refused") {
  const std::vector<double> d{1, 2};
  CHECK_THROWS_WITH_AS(scaled_projection_eigenvalues(std::vector<double>{1, NAN}, {}), Contains("element 1 of d"),
                       Error);
  CHECK_THROWS_WITH_AS(scaled_projection_eigenvalues(d, Directions{{{1, 1}, 0.0}}), Contains("of length 1"), Error);
  CHECK_THROWS_WITH_AS(scaled_projection_eigenvalues(d, Directions{{{1}, 0.0}}), Contains("d has 2 elements"), Error);
  CHECK_THROWS_WITH_AS(scaled_projection_eigenvalues(d, Directions{{{1, 0}, -0.5}}), Contains("kept in [0, 1]"), Error);
  CHECK_THROWS_WITH_AS(scaled_projection_eigenvalues(d, Directions{{{1, 0}, 0.0}, {{1, 0}, 0.0}}),
                       Contains("orthogonal directions"), Error);
  CHECK_THROWS_WITH_AS(scaled_projection_eigenvalues(d, Directions(3, {{1, 0}, 0.0})), Contains("at most two"), Error);
}
