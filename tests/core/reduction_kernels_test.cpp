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
    }
  }
}

TEST_CASE("reduction: a float32 sum of ten thousand thousandths is right to the last digit") {
  const Tensor x = full({10000}, 0.001), y = garbage({}, DType::float32);
  cpu().sum(x, 0, y);
  CHECK(y.item() == static_cast<double>(static_cast<float>(10000 * static_cast<double>(0.001F))));
}

TEST_CASE("reduction: results do not depend on the number of threads") {
  const Tensor x = random({300, 70, 5}, DType::float32, 1);
  for (const std::uint32_t axes : {1u, 2u, 4u, 6u}) {
    CHECK(independent_of_threads([&] {
      const Tensor y = reduced(x, axes);
      cpu().reduce(ReduceOp::logsumexp, x, ~axes, y);
      return y;
    }));
  }
}
