#include <jnorm/core/gemm.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <jnorm/core/parallel.hpp>

using namespace jnorm;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// One call of gemm on random matrices whose stored rows are `padding` elements wider than they are long.
template <class T>
struct Case {
  bool transpose_a, transpose_b;
  Index m, n, k;
  T alpha = 1, beta = 0;
  Index padding = 0;

  Index lda = (transpose_a ? m : k) + padding, ldb = (transpose_b ? k : n) + padding, ldc = n + padding;
  std::vector<T> a = random((transpose_a ? k : m) * lda, 1);
  std::vector<T> b = random((transpose_b ? n : k) * ldb, 2);
  std::vector<T> c = random(m * ldc, 3);

  static std::vector<T> random(Index size, unsigned seed) {
    std::mt19937 generator(seed);
    std::uniform_real_distribution<T> uniform(-1, 1);
    std::vector<T> values(static_cast<std::size_t>(size));
    for (T& value : values) value = uniform(generator);
    return values;
  }

  std::vector<T> run() const {
    std::vector<T> result = c;
    gemm(transpose_a, transpose_b, m, n, k, alpha, a.data(), lda, b.data(), ldb, beta, result.data(), ldc);
    return result;
  }

  double a_at(Index i, Index p) const { return a[static_cast<std::size_t>(transpose_a ? p * lda + i : i * lda + p)]; }
  double b_at(Index p, Index j) const { return b[static_cast<std::size_t>(transpose_b ? j * ldb + p : p * ldb + j)]; }

  // The largest error in units of its bound: summing k products in any order is off by at most (k + 2) roundings of the
  // sum of their magnitudes. Elements between the rows must not change at all.
  double error(const std::vector<T>& result) const {
    double worst = 0;
    const Index step = m * n * k > Index{1} << 26 ? 41 : 1;  // of a large product some rows will do
    for (Index i = 0; i < m; i += step) {
      for (Index j = 0; j < ldc; ++j) {
        const auto at = static_cast<std::size_t>(i * ldc + j);
        double right = c[at], bound = 0;
        if (j < n) {
          right *= beta;
          bound = std::abs(right);
          for (Index p = 0; p < k; ++p) {
            const double term = alpha * a_at(i, p) * b_at(p, j);
            right += term;
            bound += std::abs(term);
          }
          bound *= static_cast<double>(k + 2) * std::numeric_limits<T>::epsilon();
        }
        const double difference = std::abs(result[at] - right);
        worst = std::max(worst, difference == 0 ? 0 : difference / bound);
      }
    }
    return worst;
  }
};

struct Sizes {
  Index m, n, k;
};

template <class T>
double error_of(Case<T> problem) {
  return problem.error(problem.run());
}

}  // namespace

TEST_CASE("gemm: X^T X of a matrix that isn't square") {
  const std::vector<double> x{1, 2, 3, 1, 2, 3};
  std::vector<double> y(9);
  gemm(true, false, 3, 3, 2, 1.0, x.data(), 3, x.data(), 3, 0.0, y.data(), 3);
  CHECK(y == std::vector<double>{2, 4, 6, 4, 8, 12, 6, 12, 18});
}

TEST_CASE_TEMPLATE("gemm: every transpose of every shape is within rounding", T, float, double) {
  const std::initializer_list<Index> sizes{1, 2, 3, 5, 7, 8, 12, 13, 16, 17, 32, 33};
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const Index m : sizes) {
        for (const Index n : sizes) {
          for (const Index k : sizes) {
            CAPTURE(transpose_a);
            CAPTURE(transpose_b);
            CAPTURE(m);
            CAPTURE(n);
            CAPTURE(k);
            CHECK(error_of<T>({transpose_a, transpose_b, m, n, k}) < 1);
            CHECK(error_of<T>({transpose_a, transpose_b, m, n, k, T(0.5), T(1), 3}) < 1);
          }
        }
      }
    }
  }
}

// Deeper than one packed panel, wider than one chunk of work, and (the last two) large enough for OpenBLAS.
TEST_CASE_TEMPLATE("gemm: large and lopsided shapes are within rounding", T, float, double) {
  for (const Sizes& size : {Sizes{129, 65, 257}, Sizes{1, 70, 600}, Sizes{70, 1, 600}, Sizes{3, 300, 520},
                            Sizes{400, 20, 130}, Sizes{1025, 513, 1027}, Sizes{513, 1025, 1027}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        CAPTURE(transpose_a);
        CAPTURE(transpose_b);
        CAPTURE(size.m);
        CAPTURE(size.n);
        CAPTURE(size.k);
        CHECK(error_of<T>({transpose_a, transpose_b, size.m, size.n, size.k, T(2), T(-0.5), 5}) < 1);
      }
    }
  }
}

TEST_CASE_TEMPLATE("gemm: beta = 0 ignores what c holds", T, float, double) {
  for (const Index m : {1, 5, 1024}) {
    for (const Index n : {1, 3, 1024}) {
      const Index k = m * n == Index{1024} * 1024 ? 512 : 4;
      Case<T> problem{false, false, m, n, k};
      const std::vector<T> right = problem.run();
      for (T& value : problem.c) value = static_cast<T>(kNaN);
      CHECK(problem.run() == right);
    }
  }
}

TEST_CASE_TEMPLATE("gemm: NaN in an operand comes through, whatever multiplies it", T, float, double) {
  for (const Index m : {1, 5, 1024}) {
    for (const Index n : {1, 3, 1024}) {
      const Index k = m * n == Index{1024} * 1024 ? 512 : 4;
      for (const T alpha : {T(1), T(0)}) {
        Case<T> problem{false, true, m, n, k, alpha};
        problem.a.back() = static_cast<T>(kNaN);
        for (T& value : problem.b) value = 0;
        const std::vector<T> result = problem.run();
        CHECK(std::isnan(result.back()));
        if (m > 1) CHECK(result.front() == 0);
      }
    }
  }
}

TEST_CASE_TEMPLATE("gemm: over nothing it scales c", T, float, double) {
  CHECK(error_of<T>({false, false, 3, 5, 0, T(1), T(2)}) == 0);
  Case<T> problem{false, false, 3, 5, 0};
  for (T& value : problem.c) value = static_cast<T>(kNaN);
  CHECK(problem.run() == std::vector<T>(15, T(0)));
}

TEST_CASE_TEMPLATE("gemm: no rows and no columns are no work", T, float, double) {
  CHECK(error_of<T>({false, false, 0, 5, 7}) == 0);
  CHECK(error_of<T>({false, false, 5, 0, 7, T(1), T(0), 2}) == 0);
}

TEST_CASE_TEMPLATE("gemm: the number of threads changes no bit", T, float, double) {
  const int threads = thread_count();
  for (const Sizes& size : {Sizes{512, 64, 64}, Sizes{500, 20, 300}, Sizes{130, 130, 130}, Sizes{1024, 1024, 512}}) {
    const Case<T> problem{false, true, size.m, size.n, size.k};
    set_thread_count(1);
    const std::vector<T> right = problem.run();
    for (const int count : {2, 3}) {
      set_thread_count(count);
      CHECK(problem.run() == right);
    }
  }
  set_thread_count(threads);
}
