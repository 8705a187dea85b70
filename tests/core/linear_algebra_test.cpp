#include <jnorm/core/linear_algebra.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>
#include <core/random_tensor.hpp>

#include <jnorm/core/error.hpp>

using namespace jnorm;

namespace {

// The largest |x^T x - 1| over pairs of columns of x, or of rows where `rows` is set.
double distance_from_orthonormal(const Tensor& x, bool rows) {
  const Index count = x.dim(rows ? 0 : 1), length = x.dim(rows ? 1 : 0);
  double worst = 0;
  for (Index i = 0; i < count; ++i) {
    for (Index j = 0; j < count; ++j) {
      double dot = i == j ? -1 : 0;
      for (Index p = 0; p < length; ++p) dot += rows ? x.at({i, p}) * x.at({j, p}) : x.at({p, i}) * x.at({p, j});
      worst = std::max(worst, std::abs(dot));
    }
  }
  return worst;
}

double distance_from_product(const Tensor& a, const Svd& parts) {
  double worst = 0;
  for (Index i = 0; i < a.dim(0); ++i) {
    for (Index j = 0; j < a.dim(1); ++j) {
      double sum = -a.at({i, j});
      for (Index p = 0; p < parts.s.dim(0); ++p) sum += parts.u.at({i, p}) * parts.s.at({p}) * parts.vt.at({p, j});
      worst = std::max(worst, std::abs(sum));
    }
  }
  return worst;
}

const double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("singular_values: descending, whatever the signs and the order") {
  const Tensor a = tensor({{0, -3, 0}, {1, 0, 0}, {0, 0, 2}}, DType::float64);
  const std::vector<double> s = singular_values(a).values();
  CHECK(s[0] == doctest::Approx(3).epsilon(1e-15));
  CHECK(s[1] == doctest::Approx(2).epsilon(1e-15));
  CHECK(s[2] == doctest::Approx(1).epsilon(1e-15));
}

TEST_CASE("singular_values: of [[3, 0], [4, 5]] are 3 sqrt 5 and sqrt 5, wide or tall") {
  const Tensor wide = tensor({{3, 0, 0}, {4, 5, 0}}, DType::float64);
  const Tensor tall = tensor({{3, 4}, {0, 5}, {0, 0}}, DType::float64);
  for (const Tensor& a : {wide, tall}) {
    const std::vector<double> s = singular_values(a).values();
    REQUIRE(s.size() == 2);
    CHECK(s[0] == doctest::Approx(3 * std::sqrt(5)).epsilon(1e-14));
    CHECK(s[1] == doctest::Approx(std::sqrt(5)).epsilon(1e-14));
  }
}

TEST_CASE("singular_values: 1x1 is the magnitude, in its own dtype") {
  CHECK(singular_values(full({1, 1}, -4, DType::float64)).item() == 4);
  CHECK(singular_values(full({1, 1}, -4, DType::float32)).dtype() == DType::float32);
  CHECK(singular_values(full({1, 1}, 0, DType::float64)).item() == 0);
}

TEST_CASE("singular_values: the argument stays as it was") {
  const Tensor a = random_tensor({5, 4}, DType::float64, 1);
  const std::vector<double> before = a.values();
  singular_values(a);
  svd(a);
  CHECK(a.values() == before);
}

// Gesdd is backward stable: errors are a small multiple of machine epsilon times the norm, which is below 10 here.
TEST_CASE("svd: u diag(s) vt is the matrix, u and vt are orthonormal, s are the singular values") {
  for (const DType dtype : {DType::float64, DType::float32}) {
    const double bound = 100 * machine_epsilon(dtype);
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 7}, Shape{7, 3}, Shape{1, 5}, Shape{5, 1}, Shape{33, 33}}) {
      CAPTURE(shape);
      const Tensor a = random_tensor(shape, dtype, 1);
      const Svd parts = svd(a);
      const Index count = std::min(shape[0], shape[1]);
      REQUIRE(parts.u.shape() == Shape{shape[0], count});
      REQUIRE(parts.vt.shape() == Shape{count, shape[1]});
      CHECK(distance_from_product(a, parts) < bound);
      CHECK(distance_from_orthonormal(parts.u, false) < bound);
      CHECK(distance_from_orthonormal(parts.vt, true) < bound);
      const std::vector<double> s = parts.s.values(), values = singular_values(a).values();
      CHECK(std::is_sorted(s.rbegin(), s.rend()));
      for (std::size_t i = 0; i < s.size(); ++i) CHECK(std::abs(s[i] - values[i]) < bound);
    }
  }
}

TEST_CASE("svd: an empty matrix has no singular values") {
  for (const Shape& shape : {Shape{0, 0}, Shape{0, 3}, Shape{3, 0}}) {
    const Tensor a = Tensor::uninitialized(shape, DType::float64);
    CHECK(singular_values(a).shape() == Shape{0});
    const Svd parts = svd(a);
    CHECK(parts.u.shape() == Shape{shape[0], 0});
    CHECK(parts.s.shape() == Shape{0});
    CHECK(parts.vt.shape() == Shape{0, shape[1]});
  }
}

TEST_CASE("svd: a NaN or infinity is an error that says where it is") {
  for (const double bad : {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    const Tensor a = tensor({{1, 2, 3}, {4, 5, bad}}, DType::float64);
    CHECK_THROWS_WITH(singular_values(a), "singular_values: element [1, 2] of the [2, 3] matrix is not finite");
    CHECK_THROWS_WITH(svd(a), "svd: element [1, 2] of the [2, 3] matrix is not finite");
  }
}

TEST_CASE("svd: only matrices have one") {
  CHECK_THROWS_WITH(singular_values(tensor({1, 2})), "singular_values: expected a matrix, got [2]");
  CHECK_THROWS_WITH(svd(Tensor()), "svd: expected a matrix, got an undefined tensor");
}
