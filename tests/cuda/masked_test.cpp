#include "cuda/device_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

// Every third element is masked.
Tensor some_mask(const Shape& shape) {
  std::vector<std::int32_t> mask;
  for (Index i = 0; i < shape.size(); ++i) mask.push_back(i % 3 == 1 ? 0 : 1);
  return indices(shape, mask);
}

Tensor selected(const Tensor& x, const Tensor& mask) {
  const Tensor y = garbage_on_device(x.shape(), x.dtype());
  device_kernels().select(on_device(x), on_device(mask), y);
  return y.to(Device::cpu());
}
Tensor right_selected(const Tensor& x, const Tensor& mask) {
  const Tensor wide = x.to(DType::float64), y = garbage_like(wide);
  cpu().select(wide, mask, y);
  return y;
}

Tensor product(const Tensor& a, bool transpose_a, const Tensor& b, const Tensor& mask, const Shape& shape) {
  const Tensor y = garbage_on_device(shape, a.dtype());
  device_kernels().masked_matmul(on_device(a), transpose_a, on_device(b), on_device(mask), y);
  return y.to(Device::cpu());
}
Tensor right_product(const Tensor& a, bool transpose_a, const Tensor& b, const Tensor& mask, const Shape& shape) {
  const Tensor y = garbage(shape, DType::float64);
  cpu().masked_matmul(a.to(DType::float64), transpose_a, b.to(DType::float64), mask, y);
  return y;
}
double bound(DType dtype) { return std::max(a_few_roundings(dtype), tolerance(statistics_dtype(dtype))); }

}  // namespace

TEST_CASE("cuda select: elements where the mask is 1, 0 elsewhere, even of NaN; the mask repeats") {
  for (const DType dtype : kFloatingTypes) {
    const Tensor x = random({4, 5, 7}, dtype, 1);
    for (const Shape& shape : {Shape{4, 5, 7}, Shape{5, 7}, Shape{7}}) {
      CHECK(distance(selected(x, some_mask(shape)), right_selected(x, some_mask(shape))) == 0.0);
    }
    CHECK(selected(tensor({kNaN, kNaN, 3}, dtype), indices({3}, std::vector<std::int32_t>{0, 1, 1})).at({0}) == 0.0);
  }
}

TEST_CASE("cuda masked_matmul: plain and transposed, where each operand may be the one that repeats") {
  for (const DType dtype : kFloatingTypes) {
    const Shape mask_shape{2, 5, 4};
    const Tensor mask = some_mask(mask_shape), one_mask = some_mask({5, 4});
    const Tensor a = random({3, 2, 5, 4}, dtype, 1), one_a = random({2, 5, 4}, dtype, 1);
    const Tensor b = random({3, 2, 4, 6}, dtype, 2), one_b = random({2, 4, 6}, dtype, 2);
    const Tensor tall_b = random({3, 2, 5, 6}, dtype, 3);
    const Shape y{3, 2, 5, 6}, transposed{3, 2, 4, 6};
    CHECK(distance(product(a, false, b, mask, y), right_product(a, false, b, mask, y)) < bound(dtype));
    CHECK(distance(product(one_a, false, b, mask, y), right_product(one_a, false, b, mask, y)) < bound(dtype));
    CHECK(distance(product(a, false, one_b, one_mask, y), right_product(a, false, one_b, one_mask, y)) < bound(dtype));
    CHECK(distance(product(a, true, tall_b, mask, transposed), right_product(a, true, tall_b, mask, transposed)) <
          bound(dtype));
  }
}

TEST_CASE("cuda masked_matmul: a masked pair is left out though a's element, or b's row, is NaN") {
  const Tensor mask = indices({2, 2}, std::vector<std::int32_t>{1, 0, 1, 1});
  const Tensor a = tensor({{1, kNaN}, {1, 1}}), b = tensor({{1, 2}, {kNaN, 5}});
  CHECK(distance(product(a, false, b, mask, {2, 2}), {1, 2, kNaN, 7}) == 0.0);
  CHECK(distance(product(a, true, b, mask, {2, 2}), {kNaN, 7, kNaN, 5}) == 0.0);
}

TEST_CASE("cuda masked_matmul: over nothing the product is 0, and of nothing it is nothing") {
  const Tensor none = some_mask({2, 0});
  CHECK(product(zeros({2, 0}), false, zeros({0, 3}), none, {2, 3}).values() == std::vector<double>(6, 0.0));
  CHECK(product(zeros({2, 0}), true, zeros({2, 3}), none, {0, 3}).size() == 0);
  CHECK(selected(zeros({0, 3}), some_mask({3})).size() == 0);
}
