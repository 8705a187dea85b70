#include <jnorm/core/matrix_measures.hpp>

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <jnorm/core/error.hpp>

using namespace jnorm;
using doctest::Approx;
using doctest::Contains;

TEST_CASE("trace: the sum of the diagonal") { CHECK(trace(tensor({{1, 2}, {3, 4}})) == 5.0); }

TEST_CASE("trace: a matrix that isn't square is refused") {
  CHECK_THROWS_WITH_AS(trace(tensor({{1, 2}})), Contains("expected a square matrix, got [1, 2]"), Error);
}

TEST_CASE("identity_distance: the identity is at 0, the zero matrix at 1") {
  CHECK(identity_distance(identity(5)) == 0.0);
  CHECK(identity_distance(zeros({5, 5})) == 1.0);
}

TEST_CASE("identity_distance: ||M - I||_F over the root of N") {
  CHECK(identity_distance(tensor({{2, 2}, {-1, 4}}, DType::float64)) == Approx(std::sqrt(15.0 / 2.0)).epsilon(1e-15));
}

TEST_CASE("relative_distance: over the norm of the second") {
  CHECK(relative_distance(tensor({3, 0}), tensor({3, 4})) == 0.8);
  CHECK(relative_distance(tensor({0}), tensor({0})) == 0.0);
  CHECK(relative_distance(tensor({1}), tensor({0})) == std::numeric_limits<double>::infinity());
}

TEST_CASE("effective_rank: equal values all count, one large value counts alone") {
  CHECK(effective_rank(tensor({3, 3, 3, 3})) == 4.0);
  CHECK(effective_rank(tensor({5, 0, 0, 0})) == 1.0);
  CHECK(effective_rank(tensor({2, 1}, DType::float64)) == Approx(25.0 / 17.0).epsilon(1e-15));
}

TEST_CASE("effective_rank: the scale doesn't matter, however small") {
  CHECK(effective_rank(tensor({2e-150, 1e-150}, DType::float64)) == Approx(25.0 / 17.0).epsilon(1e-15));
  CHECK(effective_rank(tensor({0, 0})) == 0.0);
}

TEST_CASE("median: the middle value, or the mean of the two in the middle") {
  CHECK(median(tensor({5, 1, 3})) == 3.0);
  CHECK(median(tensor({4, 1, 3, 2})) == 2.5);
  CHECK_THROWS_WITH_AS(median(zeros({0})), Contains("there are no values"), Error);
}

TEST_CASE("log_volume: the sum of the logarithms, -inf with a zero, 0 of nothing") {
  CHECK(log_volume(tensor({4, 0.5, 0.5}, DType::float64)) == doctest::Approx(0.0));
  CHECK(log_volume(tensor({2, 3}, DType::float64)) == doctest::Approx(1.791759469228055));
  CHECK(log_volume(tensor({2, 0}, DType::float64)) == -std::numeric_limits<double>::infinity());
  CHECK(log_volume(zeros({0}, DType::float64)) == 0.0);
}
