#include "cuda/device_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

// What sums of a few dozen products of numbers below 2 lose, and the one rounding of a narrow result.
double rounding(DType dtype) { return std::max(a_few_roundings(dtype), 8 * tolerance(statistics_dtype(dtype))); }

struct Product {
  Shape a, b, y;
  bool transpose_a = false, transpose_b = false;
};

double error_of(const Product& product, DType dtype, bool add) {
  const Tensor a = random(product.a, dtype, 1), b = random(product.b, dtype, 2), start = random(product.y, dtype, 3);
  const Tensor y = on_device(start);
  device_kernels().matmul(on_device(a), product.transpose_a, on_device(b), product.transpose_b,
                          {.tensor = y, .add = add});
  const Tensor right = start.to(DType::float64).clone();
  cpu().matmul(a.to(DType::float64), product.transpose_a, b.to(DType::float64), product.transpose_b,
               {.tensor = right, .add = add});
  return distance(y.on_host(), right);
}

const Product kProducts[] = {
    {.a = {5, 7}, .b = {7, 3}, .y = {5, 3}},
    {.a = {5, 7}, .b = {3, 7}, .y = {5, 3}, .transpose_b = true},
    {.a = {7, 5}, .b = {7, 3}, .y = {5, 3}, .transpose_a = true},
    {.a = {7, 5}, .b = {3, 7}, .y = {5, 3}, .transpose_a = true, .transpose_b = true},
    {.a = {4, 5, 7}, .b = {4, 7, 3}, .y = {4, 5, 3}},
    {.a = {4, 5, 7}, .b = {7, 3}, .y = {4, 5, 3}},  // one b for all
    {.a = {5, 7}, .b = {4, 7, 3}, .y = {4, 5, 3}},  // one a for all
    {.a = {4, 7, 5}, .b = {7, 3}, .y = {4, 5, 3}, .transpose_a = true},
    {.a = {3, 2, 5, 7}, .b = {2, 7, 3}, .y = {3, 2, 5, 3}},                       // b repeats three times
    {.a = {2, 5, 7}, .b = {3, 2, 3, 7}, .y = {3, 2, 5, 3}, .transpose_b = true},  // a does
};

}  // namespace

TEST_CASE("matmul on a device: every transposition and repetition, for every dtype") {
  for (const DType dtype : kFloatingTypes) {
    for (const Product& product : kProducts) {
      CAPTURE(to_string(dtype));
      CAPTURE(to_string(product.a));
      CAPTURE(to_string(product.b));
      CHECK(error_of(product, dtype, false) <= rounding(dtype));
      CHECK(error_of(product, dtype, true) <= 2 * rounding(dtype));
    }
  }
}

TEST_CASE("matmul on a device: over no inner elements the product is 0, or what was there") {
  const Tensor a = on_device(full({2, 0}, 1)), b = on_device(full({0, 3}, 1));
  const Tensor y = garbage_on_device({2, 3}, DType::float32);
  device_kernels().matmul(a, false, b, false, {.tensor = y});
  CHECK(y.values() == std::vector<double>(6, 0.0));
  const Tensor kept = on_device(full({2, 3}, 5.0));
  device_kernels().matmul(a, false, b, false, {.tensor = kept, .add = true});
  CHECK(kept.values() == std::vector<double>(6, 5.0));
}

TEST_CASE("matmul on a device: of empty results nothing is computed") {
  const Tensor y = on_device(full({0, 3}, 1.0));
  device_kernels().matmul(on_device(full({0, 2}, 1)), false, on_device(full({2, 3}, 1)), false, {.tensor = y});
  CHECK(y.values().empty());
}

TEST_CASE("linear on a device: x W^T + b, with a bias and without") {
  for (const DType dtype : kFloatingTypes) {
    const Tensor x = random({2, 4, 9}, dtype, 1), weight = random({5, 9}, dtype, 2), bias = random({5}, dtype, 3);
    for (const bool biased : {true, false}) {
      CAPTURE(to_string(dtype));
      CAPTURE(biased);
      const Tensor y = garbage_on_device({2, 4, 5}, dtype), right = garbage({2, 4, 5}, DType::float64);
      device_kernels().linear(on_device(x), on_device(weight), biased ? on_device(bias) : Tensor(), y);
      cpu().linear(x.to(DType::float64), weight.to(DType::float64), biased ? bias.to(DType::float64) : Tensor(), right);
      // A narrow product is rounded once more before the bias comes to it.
      CHECK(distance(y.on_host(), right) <= rounding(dtype) * (biased ? 4 : 1));
    }
  }
}

TEST_CASE("linear on a device: without inputs y is the bias") {
  const Tensor y = garbage_on_device({2, 3}, DType::float32);
  device_kernels().linear(on_device(full({2, 0}, 1)), on_device(full({3, 0}, 1)), on_device(tensor({1, 2, 3})), y);
  CHECK(y.values() == std::vector<double>{1, 2, 3, 1, 2, 3});
}
