#include <jnorm/core/matrix_measures.hpp>

#include <algorithm>
#include <cmath>

#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

void expect_square(const char* measure, const Tensor& matrix) {
  expect(matrix.rank() == 2 && matrix.dim(0) == matrix.dim(1), "{}: expected a square matrix, got {}", measure,
         matrix.shape());
}

}  // namespace

double trace(const Tensor& matrix) {
  expect_square("trace", matrix);
  const Index size = matrix.dim(0);
  double total = 0.0;
  for (Index i = 0; i < size; ++i) total += matrix.at({i, i});
  return total;
}

double identity_distance(const Tensor& matrix) {
  expect_square("identity_distance", matrix);
  const Index size = matrix.dim(0);
  const std::vector<double> entries = matrix.values();
  double squares = 0.0;
  for (Index i = 0; i < size; ++i) {
    for (Index j = 0; j < size; ++j) {
      const double difference = entries[static_cast<std::size_t>(i * size + j)] - (i == j ? 1.0 : 0.0);
      squares += difference * difference;
    }
  }
  return size == 0 ? 0.0 : std::sqrt(squares / static_cast<double>(size));
}

double relative_distance(const Tensor& a, const Tensor& b) {
  expect(a.shape() == b.shape(), "relative_distance: shapes {} and {} differ", a.shape(), b.shape());
  const std::vector<double> left = a.values();
  const std::vector<double> right = b.values();
  double difference = 0.0;
  double size = 0.0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    difference += (left[i] - right[i]) * (left[i] - right[i]);
    size += right[i] * right[i];
  }
  return difference == 0.0 ? 0.0 : std::sqrt(difference / size);
}

double effective_rank(const Tensor& singular_values) {
  double squares = 0.0;
  double fourth_powers = 0.0;
  const std::vector<double> values = singular_values.values();
  // Scaled by the largest, so that the fourth powers of small or large values don't leave the range of float64.
  const double largest = values.empty() ? 0.0 : *std::max_element(values.begin(), values.end());
  if (largest == 0.0) return 0.0;
  for (const double value : values) {
    const double square = (value / largest) * (value / largest);
    squares += square;
    fourth_powers += square * square;
  }
  return squares * squares / fourth_powers;
}

double log_volume(const Tensor& singular_values) {
  double sum = 0.0;
  for (const double s : singular_values.values()) sum += std::log(s);
  return sum;
}

double median(const Tensor& values) {
  expect(values.size() > 0, "median: there are no values");
  std::vector<double> sorted = values.values();
  std::sort(sorted.begin(), sorted.end());
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2.0;
}

}  // namespace jnorm
