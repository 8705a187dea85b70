#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>
#include <core/random_tensor.hpp>

#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/parallel.hpp>

using namespace jnorm;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Batches {
  Index a, b;
  Index count() const { return std::max(a, b); }
};

// One product of random matrices, and the largest error in units of its bound: (k + 2) roundings of the sum of the
// magnitudes, in whatever order the k products are summed up.
struct Product {
  Batches batches;
  Index m, n, k;
  bool transpose_a = false, transpose_b = false;
  DType dtype = DType::float64;

  Tensor a = random_tensor(matrices(batches.a, transpose_a ? k : m, transpose_a ? m : k), dtype, 1);
  Tensor b = random_tensor(matrices(batches.b, transpose_b ? n : k, transpose_b ? k : n), dtype, 2);

  static Shape matrices(Index count, Index rows, Index columns) {
    return count == 1 ? Shape{rows, columns} : Shape{count, rows, columns};
  }
  Shape shape() const { return matrices(batches.count(), m, n); }

  double a_at(Index batch, Index i, Index p) const {
    const Index row = transpose_a ? p : i, column = transpose_a ? i : p;
    return batches.a == 1 ? a.at({row, column}) : a.at({batch % batches.a, row, column});
  }
  double b_at(Index batch, Index p, Index j) const {
    const Index row = transpose_b ? j : p, column = transpose_b ? p : j;
    return batches.b == 1 ? b.at({row, column}) : b.at({batch % batches.b, row, column});
  }

  // `before` is what y held, 0 where the product overwrites it.
  double error(const Tensor& y, double before) const {
    const std::vector<double> result = y.values();
    double worst = 0;
    for (Index batch = 0; batch < batches.count(); ++batch) {
      for (Index i = 0; i < m; ++i) {
        for (Index j = 0; j < n; ++j) {
          double right = before, magnitude = std::abs(before);
          for (Index p = 0; p < k; ++p) {
            const double term = a_at(batch, i, p) * b_at(batch, p, j);
            right += term;
            magnitude += std::abs(term);
          }
          const double bound = static_cast<double>(k + 2) * machine_epsilon(dtype) * magnitude;
          const double difference = std::abs(result[static_cast<std::size_t>((batch * m + i) * n + j)] - right);
          worst = std::max(worst, difference == 0 ? 0 : difference / bound);
        }
      }
    }
    return worst;
  }
};

double error_of(const Product& product) {
  const Tensor y = full(product.shape(), kNaN, product.dtype);
  cpu::matmul(product.a, product.transpose_a, product.b, product.transpose_b, {.tensor = y});
  return product.error(y, 0);
}

double error_when_adding(const Product& product) {
  const Tensor y = full(product.shape(), 0.5, product.dtype);
  cpu::matmul(product.a, product.transpose_a, product.b, product.transpose_b, {.tensor = y, .add = true});
  return product.error(y, 0.5);
}

}  // namespace

TEST_CASE("matmul: X^T X of a matrix that isn't square") {
  const Tensor x = tensor({{1, 2, 3}, {1, 2, 3}}, DType::float64);
  const Tensor y = Tensor::uninitialized({3, 3}, DType::float64);
  cpu::matmul(x, true, x, false, {.tensor = y});
  CHECK(y.values() == std::vector<double>{2, 4, 6, 4, 8, 12, 6, 12, 18});
}

TEST_CASE("matmul: every transpose, shape and repetition is within rounding") {
  struct Sizes {
    Index m, n, k;
  };
  for (const DType dtype : {DType::float64, DType::float32}) {
    for (const Batches& batches : {Batches{1, 1}, Batches{3, 3}, Batches{3, 1}, Batches{1, 3}}) {
      for (const Sizes& size : {Sizes{1, 1, 1}, Sizes{3, 5, 7}, Sizes{17, 33, 5}, Sizes{129, 3, 20}}) {
        for (const bool transpose_a : {false, true}) {
          for (const bool transpose_b : {false, true}) {
            const Product product{batches, size.m, size.n, size.k, transpose_a, transpose_b, dtype};
            CAPTURE(product.a.shape());
            CAPTURE(product.b.shape());
            CHECK(error_of(product) < 1);
            CHECK(error_when_adding(product) < 1);
          }
        }
      }
    }
  }
}

TEST_CASE("matmul: fewer batches repeat along several axes") {
  const Tensor a = random_tensor({2, 3, 1, 4}, DType::float64, 1);
  const Tensor b = random_tensor({3, 4, 1}, DType::float64, 2);
  const Tensor y = Tensor::uninitialized({2, 3, 1, 1}, DType::float64);
  cpu::matmul(a, false, b, false, {.tensor = y});
  for (const Index i : {0, 1}) {
    for (const Index j : {0, 1, 2}) {
      double right = 0;
      for (const Index p : {0, 1, 2, 3}) right += a.at({i, j, 0, p}) * b.at({j, p, 0});
      CHECK(y.at({i, j, 0, 0}) == doctest::Approx(right).epsilon(1e-14));
    }
  }
}

TEST_CASE("matmul: over nothing it clears, and no rows are no work") {
  CHECK(error_of({{2, 2}, 3, 4, 0}) == 0);
  CHECK(error_of({{2, 1}, 0, 4, 5}) == 0);
  CHECK(error_when_adding({{2, 2}, 3, 4, 0}) == 0);
}

TEST_CASE("matmul: the number of threads changes no bit") {
  const int threads = thread_count();
  const Tensor a = random_tensor({40, 30, 64}, DType::float32, 1);
  const Tensor b = random_tensor({40, 64, 50}, DType::float32, 2);
  const Tensor y = Tensor::uninitialized({40, 30, 50});
  set_thread_count(1);
  cpu::matmul(a, false, b, false, {.tensor = y});
  const std::vector<double> right = y.values();
  set_thread_count(3);
  cpu::matmul(a, false, b, false, {.tensor = y});
  CHECK(y.values() == right);
  set_thread_count(threads);
}

TEST_CASE("linear: y = x W^T + bias, within rounding") {
  for (const DType dtype : {DType::float64, DType::float32}) {
    for (const Index rows : {0, 1, 3, 129}) {
      for (const Index in : {1, 7, 33}) {
        for (const Index out : {1, 5, 40}) {
          const Product product{{1, 1}, rows, out, in, false, true, dtype};
          const Tensor bias = full({out}, 0.5, dtype);
          const Tensor y = full({rows, out}, kNaN, dtype);
          cpu::linear(product.a, product.b, bias, y);
          CHECK(product.error(y, 0.5) < 1);
          cpu::linear(product.a, product.b, {}, y);
          CHECK(product.error(y, 0) < 1);
        }
      }
    }
  }
}

TEST_CASE("linear: each column has a bias of its own") {
  const Tensor x = tensor({{1, 0}, {0, 1}}, DType::float64);
  const Tensor weight = tensor({{1, 2}, {3, 4}, {5, 6}}, DType::float64);
  const Tensor y = Tensor::uninitialized({2, 3}, DType::float64);
  cpu::linear(x, weight, tensor({10, 20, 30}, DType::float64), y);
  CHECK(y.values() == std::vector<double>{11, 23, 35, 12, 24, 36});
}

TEST_CASE("linear: a product so large that OpenBLAS computes it has its bias too") {
  const Tensor x = full({1024, 512}, 0.25);
  const Tensor weight = full({1024, 512}, 2.0);
  const Tensor y = full({1024, 1024}, kNaN);
  cpu::linear(x, weight, full({1024}, 0.5), y);
  const std::vector<double> values = y.values();
  CHECK(std::all_of(values.begin(), values.end(), [](double value) { return value == 256.5; }));
}

TEST_CASE("column_sum: sums the rows of each copy") {
  const Tensor x = tensor({2, 3, 2}, std::vector<double>{1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60}, DType::float64);
  const Tensor y = full({2, 2}, kNaN, DType::float64);
  cpu::column_sum(x, {.tensor = y});
  CHECK(y.values() == std::vector<double>{9, 12, 90, 120});
  cpu::column_sum(x, {.tensor = y, .add = true});
  CHECK(y.values() == std::vector<double>{18, 24, 180, 240});
}

TEST_CASE("column_sum: any width and number of rows") {
  for (const Index width : {1, 7, 33, 70}) {
    for (const Index rows : {0, 1, 300}) {
      const Tensor x = random_tensor({rows, width}, DType::float64, 1);
      const Tensor y = full({width}, kNaN, DType::float64);
      cpu::column_sum(x, {.tensor = y});
      for (Index column = 0; column < width; ++column) {
        double right = 0;
        for (Index row = 0; row < rows; ++row) right += x.at({row, column});
        CHECK(y.at({column}) == doctest::Approx(right).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("column_sum: a long sum in float32 loses little") {
  const Tensor x = full({100000, 1}, 0.001);
  const Tensor y = Tensor::uninitialized({1});
  cpu::column_sum(x, {.tensor = y});
  // At most 64 + 11 roundings of 6e-8 each; one running sum would make up to 100000.
  CHECK(std::abs(y.item() - 100.0) < 75 * 6e-8 * 100.0);
}
