#include <jnorm/autograd/matrix_free.hpp>

#include <cmath>

#include <doctest/doctest.h>

#include <jnorm/core/error.hpp>
#include <jnorm/core/linear_algebra.hpp>
#include <jnorm/core/matrix_measures.hpp>
#include <jnorm/core/operations.hpp>
#include <support/close.hpp>

using namespace jnorm;
using doctest::Approx;
using doctest::Contains;

namespace {

Tensor random(const Shape& shape, std::uint64_t seed) {
  Rng rng(seed);
  return randn(shape, rng, DType::float64);
}

MatrixFree map_of(const Tensor& matrix) {
  return {.rows = matrix.dim(0),
          .columns = matrix.dim(1),
          .apply = [=](const Tensor& v) { return matmul(v, matrix, false, true); },
          .apply_transposed = [=](const Tensor& u) { return matmul(u, matrix); }};
}

// A [rows, columns] matrix with the given singular values and random singular vectors.
Tensor with_spectrum(Index rows, Index columns, const std::vector<double>& sigma) {
  const auto count = static_cast<Index>(sigma.size());
  const Tensor u = svd(random({rows, count}, 1)).u, vt = svd(random({count, columns}, 2)).vt;
  return matmul(multiply(u, tensor({count}, sigma, DType::float64)), vt);
}

std::vector<double> geometric(Index count, double ratio) {
  std::vector<double> sigma(static_cast<std::size_t>(count), 1.0);
  for (std::size_t i = 1; i < sigma.size(); ++i) sigma[i] = ratio * sigma[i - 1];
  return sigma;
}

// The first `count` singular values that Lanczos finds, relative to the largest.
double lanczos_error(const Tensor& matrix, const std::vector<double>& sigma, Index count) {
  const std::vector<double> found = lanczos_singular_values(map_of(matrix), count).values();
  REQUIRE(static_cast<Index>(found.size()) == count);
  double worst = 0.0;
  for (std::size_t i = 0; i < found.size(); ++i) worst = std::max(worst, std::abs(found[i] - sigma[i]) / sigma[0]);
  return worst;
}

// What a residual of 1e-10 promises.
constexpr double kPromised = 1e-10;

}  // namespace

TEST_CASE("Lanczos: the largest singular values of tall, wide and square matrices") {
  const std::vector<double> sigma = geometric(60, 0.9);
  CHECK(lanczos_error(with_spectrum(100, 60, sigma), sigma, 5) < kPromised);
  CHECK(lanczos_error(with_spectrum(60, 100, sigma), sigma, 5) < kPromised);
  CHECK(lanczos_error(with_spectrum(60, 60, sigma), sigma, 5) < kPromised);
}

TEST_CASE("Lanczos: a value that occurs several times is found as often") {
  std::vector<double> sigma = geometric(80, 0.95);
  for (std::size_t i = 0; i < 4; ++i) sigma[i] = 1.0;
  CHECK(lanczos_error(with_spectrum(80, 80, sigma), sigma, 6) < kPromised);
}

TEST_CASE("Lanczos: a cluster of nearly equal values") {
  std::vector<double> sigma = geometric(80, 0.95);
  for (std::size_t i = 0; i < 5; ++i) sigma[i] = 1.0 - 1e-7 * static_cast<double>(i);
  CHECK(lanczos_error(with_spectrum(80, 80, sigma), sigma, 5) < kPromised);
}

TEST_CASE("Lanczos: a spectrum without gaps") {
  std::vector<double> sigma;
  for (int i = 0; i < 200; ++i) sigma.push_back(1.0 - i / 200.0);
  CHECK(lanczos_error(with_spectrum(200, 200, sigma), sigma, 8) < kPromised);
}

TEST_CASE("Lanczos: the rank is less than the number asked for") {
  std::vector<double> sigma{3.0, 2.0};
  const Tensor matrix = with_spectrum(30, 20, sigma);
  sigma.resize(6);
  CHECK(lanczos_error(matrix, sigma, 6) < kPromised);
}

TEST_CASE("Lanczos: all of them, and of an orthogonal matrix") {
  const std::vector<double> sigma = geometric(12, 0.5);
  CHECK(lanczos_error(with_spectrum(12, 12, sigma), sigma, 12) < kPromised);
  CHECK(lanczos_singular_values(map_of(svd(random({9, 9}, 3)).u), 3) == close({1, 1, 1}, kPromised));
}

TEST_CASE("Lanczos: the zero map, one by one, and nothing at all") {
  CHECK(lanczos_singular_values(map_of(zeros({8, 5}, DType::float64)), 3) == close({0, 0, 0}, 0.0));
  CHECK(lanczos_singular_values(map_of(full({1, 1}, -3.0, DType::float64)), 1) == close({3}, 1e-15));
  CHECK(lanczos_singular_values(map_of(zeros({0, 5}, DType::float64)), 0).size() == 0);
  CHECK(lanczos_singular_values(map_of(random({4, 4}, 1)), 0).size() == 0);
}

TEST_CASE("Lanczos: values far below and above 1") {
  for (const double scale : {1e-150, 1e150}) {
    const Tensor matrix = affine(with_spectrum(30, 30, geometric(30, 0.8)), scale, 0.0);
    CHECK(lanczos_singular_values(map_of(matrix), 2).at({1}) / scale == Approx(0.8).epsilon(kPromised));
  }
}

TEST_CASE("matrix-free: more values than there are, and a map with NaN, are refused") {
  CHECK_THROWS_WITH_AS(lanczos_singular_values(map_of(random({4, 3}, 1)), 4), Contains("there are 3, but 4"), Error);
  const MatrixFree broken = map_of(full({9, 9}, NAN, DType::float64));
  CHECK_THROWS_WITH_AS(lanczos_singular_values(broken, 2), Contains("isn't finite"), Error);
  CHECK_THROWS_WITH_AS(power_iteration(broken), Contains("isn't finite"), Error);
}

TEST_CASE("power iteration: agrees with Lanczos") {
  const Tensor matrix = with_spectrum(50, 40, geometric(40, 0.9));
  const SpectralNorm norm = power_iteration(map_of(matrix));
  CHECK(norm.converged);
  CHECK(norm.value == Approx(lanczos_singular_values(map_of(matrix), 1).item()).epsilon(1e-12));
}

TEST_CASE("power iteration: says when it hasn't converged, and doesn't overestimate") {
  const Tensor matrix = with_spectrum(50, 40, geometric(40, 0.9999));
  const SpectralNorm norm = power_iteration(map_of(matrix), {.most_iterations = 10});
  CHECK_FALSE(norm.converged);
  CHECK(norm.iterations == 10);
  CHECK(norm.value <= 1.0 + 1e-14);
  CHECK(norm.value > 0.99);
}

TEST_CASE("power iteration: the zero map and an empty one have the norm 0") {
  CHECK(power_iteration(map_of(zeros({3, 4}, DType::float64))).value == 0.0);
  CHECK(power_iteration(map_of(zeros({3, 4}, DType::float64))).converged);
  CHECK(power_iteration(map_of(zeros({0, 4}, DType::float64))).value == 0.0);
}

TEST_CASE("estimates: exact, with no error, for a diagonal matrix") {
  // Signs cancel: z^T D z = tr D and ||D z||^2 = ||D||_F^2 for each z.
  const Tensor matrix = tensor({{3, 0, 0}, {0, -4, 0}, {0, 0, 0.5}}, DType::float64);
  Rng rng(1);
  const Estimate trace = estimate_trace(map_of(matrix), 5, rng);
  CHECK(trace.value == Approx(-0.5));
  CHECK(trace.standard_error < 1e-15);
  CHECK(trace.samples == 5);
  CHECK(estimate_frobenius_norm(map_of(matrix), 5, rng).value == Approx(5.024937810560445));
  CHECK(estimate_distance_to_identity(map_of(matrix), 5, rng).value == Approx(3.122498999199199));
}

TEST_CASE("estimates: the Frobenius norm of a matrix that isn't square") {
  const Tensor matrix = random({20, 30}, 4);
  Rng rng(1);
  const Estimate estimate = estimate_frobenius_norm(map_of(matrix), 2000, rng);
  CHECK(std::abs(estimate.value - norm(matrix)) < 4 * estimate.standard_error);
  CHECK(estimate.standard_error < 0.01 * estimate.value);
}

TEST_CASE("estimates: two standard errors hold the truth about 95 times in 100") {
  const Tensor matrix = random({30, 30}, 5);
  const MatrixFree map = map_of(matrix);
  const double truths[] = {trace(matrix), norm(matrix), identity_distance(matrix)};
  int covered[] = {0, 0, 0};
  Rng rng(6);
  constexpr int trials = 1000;
  for (int trial = 0; trial < trials; ++trial) {
    const Estimate estimates[] = {estimate_trace(map, 40, rng), estimate_frobenius_norm(map, 40, rng),
                                  estimate_distance_to_identity(map, 40, rng)};
    for (int i = 0; i < 3; ++i) {
      if (std::abs(estimates[i].value - truths[i]) <= 2 * estimates[i].standard_error) ++covered[i];
    }
  }
  // 954 for normal errors, with a standard deviation of 7; 40 samples are a little less than normal.
  for (const int count : covered) {
    CHECK(count > 920);
    CHECK(count < 980);
  }
}

TEST_CASE("estimates: the error bar shrinks as the root of the number of samples") {
  const MatrixFree map = map_of(random({30, 30}, 5));
  Rng rng(7);
  const double few = estimate_trace(map, 500, rng).standard_error;
  const double many = estimate_trace(map, 8000, rng).standard_error;
  CHECK(few / many == Approx(4.0).epsilon(0.15));
}

TEST_CASE("estimates: one sample, or a trace of a map that isn't square, is refused") {
  Rng rng(1);
  CHECK_THROWS_WITH_AS(estimate_trace(map_of(random({3, 3}, 1)), 1, rng), Contains("at least 2 samples, got 1"), Error);
  CHECK_THROWS_WITH_AS(estimate_trace(map_of(random({3, 4}, 1)), 5, rng), Contains("this is [3, 4]"), Error);
  CHECK_THROWS_AS(estimate_distance_to_identity(map_of(random({3, 4}, 1)), 5, rng), Error);
}
