#include "core/kernel_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

// Over the axes of [A, B, C] whose bit is set, element by element.
std::vector<double> by_hand(const Tensor& x, std::uint32_t axes, double start, double (*join)(double, double)) {
  const Index a = x.dim(0), b = x.dim(1), c = x.dim(2);
  const Index sa = (axes & 1u) != 0 ? 1 : a, sb = (axes & 2u) != 0 ? 1 : b, sc = (axes & 4u) != 0 ? 1 : c;
  std::vector<double> results(static_cast<std::size_t>(sa * sb * sc), start);
  for (Index i = 0; i < a; ++i) {
    for (Index j = 0; j < b; ++j) {
      for (Index k = 0; k < c; ++k) {
        double& result = results[static_cast<std::size_t>(((i % sa) * sb + j % sb) * sc + k % sc)];
        result = join(result, x.at({i, j, k}));
      }
    }
  }
  return results;
}

Tensor reduced(const Tensor& x, std::uint32_t axes) {
  std::vector<Index> sizes;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if ((axes >> axis & 1u) == 0) sizes.push_back(x.dim(axis));
  }
  return garbage(Shape(std::span<const Index>(sizes)), x.dtype());
}

// Of all elements; of [n, 1] by way of columns.
double variance_of(const Tensor& x) {
  const bool column = x.rank() == 2;
  const Tensor y = garbage(column ? Shape{1} : Shape{}, x.dtype());
  cpu().variance(x, column ? 0b10 : 0, static_cast<double>(x.size()), y);
  return y.item();
}

}  // namespace

TEST_CASE("reduction: every set of axes, at every length") {
  for (const Index length : kRowLengths) {
    const Tensor x = random({3, 2, length}, DType::float32, 1);
    for (std::uint32_t axes = 0; axes < 8; ++axes) {
      CAPTURE(length);
      CAPTURE(axes);
      const Tensor y = reduced(x, axes);
      cpu().sum(x, ~axes, y);
      CHECK(distance(y, by_hand(x, axes, 0.0, [](double s, double v) { return s + v; })) < tolerance(DType::float32));
      cpu().reduce(ReduceOp::max, x, ~axes, y);
      CHECK(distance(y, by_hand(x, axes, -kInfinity, [](double s, double v) { return std::max(s, v); })) == 0.0);
      cpu().reduce(ReduceOp::min, x, ~axes, y);
      CHECK(distance(y, by_hand(x, axes, kInfinity, [](double s, double v) { return std::min(s, v); })) == 0.0);
      std::vector<double> right = by_hand(x, axes, 0.0, [](double s, double v) { return s + v * v; });
      for (double& value : right) value = std::sqrt(value);
      cpu().reduce(ReduceOp::l2_norm, x, ~axes, y);
      CHECK(distance(y, right) < tolerance(DType::float32));
      right = by_hand(x, axes, 0.0, [](double s, double v) { return s + std::exp(v); });
      for (double& value : right) value = std::log(value);
      cpu().reduce(ReduceOp::logsumexp, x, ~axes, y);
      CHECK(distance(y, right) < tolerance(DType::float32));
      const Index elements = x.size() / y.size();
      const auto count = static_cast<double>(elements);
      right = by_hand(x, axes, 0.0, [](double s, double v) { return s + v * v; });
      const std::vector<double> sums = by_hand(x, axes, 0.0, [](double s, double v) { return s + v; });
      for (std::size_t i = 0; i < right.size(); ++i) right[i] = right[i] / count - sums[i] * sums[i] / (count * count);
      cpu().variance(x, ~axes, count, y);
      CHECK(distance(y, right) < tolerance(DType::float32));
    }
  }
}

TEST_CASE("reduction: a float32 sum of ten thousand thousandths is right to the last digit") {
  const Tensor x = full({10000}, 0.001), y = garbage({}, DType::float32);
  cpu().sum(x, 0, y);
  CHECK(y.item() == static_cast<double>(static_cast<float>(10000 * static_cast<double>(0.001F))));
}

TEST_CASE("reduction: the variance of a row of ten thousand with a spread of a thousandth is exact in float32") {
  const double spread = std::ldexp(1.0, -10);  // what neighbouring float32 numbers there differ by
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) values.push_back(10000 + i % 2 * 2 * spread);
  CHECK(variance_of(tensor({1000}, values)) == spread * spread);
  CHECK(variance_of(tensor({1000, 1}, values)) == spread * spread);
}

TEST_CASE("reduction: the variance of 10239 times 256 and one 255 doesn't cancel") {
  std::vector<double> values(10240, 256.0);
  for (const std::size_t place : {0, 5000, 10239}) {
    std::vector<double> spoiled = values;
    spoiled[place] = 255.0;
    const double right = 10239.0 / 10240 / 10240;
    CHECK(variance_of(tensor({10240}, spoiled, DType::float64)) == doctest::Approx(right).epsilon(1e-13));
    CHECK(variance_of(tensor({10240, 1}, spoiled, DType::float64)) == doctest::Approx(right).epsilon(1e-13));
  }
}

TEST_CASE("reduction: the variance of equal numbers is exactly 0") {
  for (const DType dtype : kWideTypes) {
    CHECK(variance_of(full({33}, 0.1, dtype)) == 0.0);
    CHECK(variance_of(full({10000}, 1e4 / 3, dtype)) == 0.0);
    CHECK(variance_of(full({10000, 1}, 1e4 / 3, dtype)) == 0.0);
  }
}

TEST_CASE("reduction: a variance is rounded once, where a sum of squares leaves float16") {
  std::vector<double> values(100000, 1.0);
  for (std::size_t i = 0; i < values.size(); i += 2) values[i] = -1.0;
  CHECK(variance_of(tensor({100000}, values, DType::float16)) == 1.0);
}

TEST_CASE("reduction: NaN and infinity make a variance NaN, wherever they stand, and no other") {
  for (const double odd : {kNaN, kInfinity, -kInfinity}) {
    for (const Index place : {0, 1, 19, 20}) {
      std::vector<double> values(21, 1.0);
      values[static_cast<std::size_t>(place)] = odd;
      CHECK(std::isnan(variance_of(tensor({21}, values))));
      CHECK(std::isnan(variance_of(tensor({21, 1}, values))));
    }
    const Tensor y = garbage({2}, DType::float32);
    cpu().variance(tensor({2, 2}, std::vector{1.0, odd, 3.0, 2.0}), 0b10, 2.0, y);
    CHECK(y.at({0}) == 1.0);
    CHECK(std::isnan(y.at({1})));
  }
}

TEST_CASE("reduction: a variance over no elements is 0 of what divides it, and NaN divided by NaN") {
  for (const std::uint32_t kept : {0b01u, 0b10u}) {
    const Tensor x = kept == 0b01u ? zeros({2, 0}) : zeros({0, 2}), y = garbage({2}, DType::float32);
    cpu().variance(x, kept, 1.0, y);
    CHECK(y.values() == std::vector<double>{0, 0});
    cpu().variance(x, kept, kNaN, y);
    CHECK(std::isnan(y.at({1})));
  }
}

TEST_CASE("reduction: results do not depend on the number of threads") {
  const Tensor x = random({300, 70, 5}, DType::float32, 1);
  for (const std::uint32_t axes : {1u, 2u, 4u, 6u}) {
    CHECK(independent_of_threads([&] {
      const Tensor y = reduced(x, axes);
      cpu().reduce(ReduceOp::logsumexp, x, ~axes, y);
      return y;
    }));
    CHECK(independent_of_threads([&] {
      const Tensor y = reduced(x, axes);
      cpu().variance(x, ~axes, 1.0, y);
      return y;
    }));
  }
}
