#include "core/kernel_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

Tensor softmax(const Tensor& x) {
  Tensor y = garbage_like(x);
  cpu().softmax(x, y);
  return y;
}
Tensor log_softmax(const Tensor& x) {
  Tensor y = garbage_like(x);
  cpu().log_softmax(x, y);
  return y;
}
Tensor softmax_dx(const Tensor& dy, const Tensor& y) {
  Tensor dx = garbage_like(dy);
  cpu().softmax_dx(dy, y, {dx});
  return dx;
}
Tensor log_softmax_dx(const Tensor& dy, const Tensor& y) {
  Tensor dx = garbage_like(dy);
  cpu().log_softmax_dx(dy, y, {dx});
  return dx;
}

// Row by row in long double: p, log p, and the products of dy with both Jacobians.
struct Reference {
  std::vector<double> y, log_y, dx, log_dx;

  Reference(const Tensor& x, const Tensor& dy) {
    const auto length = static_cast<std::size_t>(x.row_length());
    const std::vector<double> xs = x.values(), gs = dy.values();
    for (std::size_t begin = 0; begin < gs.size(); begin += length) {
      const double* const row = xs.data() + begin % xs.size();
      const double* const g = gs.data() + begin;
      long double total = 0, sum_g = 0, sum_pg = 0;
      for (std::size_t j = 0; j < length; ++j) total += std::exp(static_cast<long double>(row[j]));
      const auto p = [&](std::size_t j) { return std::exp(static_cast<long double>(row[j])) / total; };
      for (std::size_t j = 0; j < length; ++j) {
        sum_g += g[j];
        sum_pg += p(j) * g[j];
      }
      for (std::size_t j = 0; j < length; ++j) {
        if (begin < xs.size()) y.push_back(static_cast<double>(p(j)));
        if (begin < xs.size()) log_y.push_back(static_cast<double>(std::log(p(j))));
        dx.push_back(static_cast<double>(p(j) * (g[j] - sum_pg)));
        log_dx.push_back(static_cast<double>(g[j] - p(j) * sum_g));
      }
    }
  }
};

}  // namespace

TEST_CASE("softmax and log_softmax: values and gradients for every length [SM.1] [SM.2] [SM.3]") {
  for (const DType dtype : kWideTypes) {
    for (const Index length : kRowLengths) {
      CAPTURE(dtype);
      CAPTURE(length);
      const Tensor x = random({5, length}, dtype, 1), dy = random({3, 5, length}, dtype, 2);
      const Reference right(x, dy);
      CHECK(distance(softmax(x), right.y) < tolerance(dtype));
      CHECK(distance(log_softmax(x), right.log_y) < tolerance(dtype));
      CHECK(distance(softmax_dx(dy, softmax(x)), right.dx) < tolerance(dtype));
      CHECK(distance(log_softmax_dx(dy, log_softmax(x)), right.log_dx) < tolerance(dtype));
    }
  }
}

TEST_CASE("softmax: large logits neither overflow nor lose a row") {
  const std::vector<double> right{0.0900305732, 0.2447284711, 0.6652409558};
  CHECK(distance(softmax(tensor({{1001, 1002, 1003}})), right) < 1e-6);
  CHECK(distance(softmax(tensor({{-1003, -1002, -1001}})), right) < 1e-6);
}

TEST_CASE("log_softmax: where exp underflows, the logarithm doesn't") {
  CHECK(distance(log_softmax(tensor({{0, -200}})), {0, -200}) == 0.0);
  CHECK(distance(log_softmax(tensor({{-200, -200, -200, -200}})), {-1.386294, -1.386294, -1.386294, -1.386294}) < 1e-6);
}

TEST_CASE("softmax: an element of -inf has probability 0 and gradient 0") {
  for (const DType dtype : kWideTypes) {
    const Tensor x = tensor({{0, -kInfinity, 0}}, dtype), dy = tensor({{1, 5, 2}}, dtype);
    CHECK(distance(softmax(x), {0.5, 0, 0.5}) < tolerance(dtype));
    CHECK(distance(log_softmax(x), {std::log(0.5), -kInfinity, std::log(0.5)}) < tolerance(dtype));
    CHECK(distance(softmax_dx(dy, softmax(x)), {-0.25, 0, 0.25}) < tolerance(dtype));
    CHECK(distance(log_softmax_dx(dy, log_softmax(x)), {1 - 4, 5, 2 - 4}) < tolerance(dtype));
  }
}

TEST_CASE("softmax: a row of nothing but -inf, and one with +inf or NaN, is NaN; its neighbours are not") {
  const Tensor x = tensor({{-kInfinity, -kInfinity}, {kInfinity, 0}, {kNaN, 0}, {0, 0}});
  CHECK(distance(softmax(x), {kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, 0.5, 0.5}) < 1e-6);
  const double half = std::log(0.5);
  CHECK(distance(log_softmax(x), {kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, half, half}) < 1e-6);
}

TEST_CASE("softmax: gradients are added where the destination says so, and left out where nobody wants them") {
  const DType dtype = DType::float64;
  const Tensor x = random({5, 17}, dtype, 1), dy = random({5, 17}, dtype, 2), before = dy.clone();
  const auto plus_one = [](std::vector<double> values) {
    for (double& value : values) value += 1.0;
    return values;
  };
  const Tensor sum = ones({5, 17}, dtype), log_sum = ones({5, 17}, dtype);
  cpu().softmax_dx(dy, softmax(x), {sum, true});
  cpu().log_softmax_dx(dy, log_softmax(x), {log_sum, true});
  CHECK(distance(sum, plus_one(softmax_dx(dy, softmax(x)).values())) < tolerance(dtype));
  CHECK(distance(log_sum, plus_one(log_softmax_dx(dy, log_softmax(x)).values())) < tolerance(dtype));
  cpu().softmax_dx(dy, softmax(x), {});
  cpu().log_softmax_dx(dy, log_softmax(x), {});
  CHECK(identical(dy, before));
}

TEST_CASE("softmax: nothing in, nothing out") {
  CHECK(softmax(zeros({0, 3})).size() == 0);
  CHECK(softmax(zeros({3, 0})).size() == 0);
  CHECK(log_softmax(zeros({3, 0})).size() == 0);
  CHECK(softmax_dx(zeros({0, 3}), zeros({0, 3})).size() == 0);
}

TEST_CASE("softmax: results do not depend on the number of threads") {
  const Tensor x = random({3000, 64}, DType::float32, 1), dy = random({3000, 64}, DType::float32, 2);
  CHECK(independent_of_threads([&] { return softmax(x); }));
  CHECK(independent_of_threads([&] { return log_softmax(x); }));
  CHECK(independent_of_threads([&] { return softmax_dx(dy, x); }));
}
