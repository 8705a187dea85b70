#include <algorithm>

#include "cuda/device_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

// What y is on both devices after run(kernels, x, y).
template <class Run>
bool same_on_both(const Tensor& x, const Tensor& y, const Run& run) {
  const Tensor right = y.clone(), got = on_device(y).clone();
  run(cpu(), x, right);
  run(device_kernels(), on_device(x), got);
  return identical(got.to(Device::cpu()), right);
}

Tensor numbered(const Shape& shape, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(shape.size()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 2039);  // exact in all dtypes
  return tensor(shape, values, dtype);
}

bool permuted_alike(const Tensor& x, const std::vector<int>& axes) {
  std::vector<Index> sizes;
  for (const int axis : axes) sizes.push_back(x.dim(axis));
  const Tensor y = full(Shape(std::span<const Index>(sizes)), -1.0, x.dtype());
  return same_on_both(
      x, y, [&](const Kernels& on, const Tensor& from, const Tensor& to) { on.permute(from, axes.data(), to); });
}

}  // namespace

TEST_CASE("cuda permute: all orders of four axes, with and without whole tiles and packs") {
  for (const DType dtype : kAllTypes) {
    for (const Shape& shape : {Shape{2, 9, 3, 8}, Shape{3, 33, 2, 40}, Shape{1, 10, 1, 35}}) {
      const Tensor x = numbered(shape, dtype);
      std::vector<int> axes{0, 1, 2, 3};
      do {
        CAPTURE(axes[0] * 1000 + axes[1] * 100 + axes[2] * 10 + axes[3]);
        CHECK(permuted_alike(x, axes));
      } while (std::next_permutation(axes.begin(), axes.end()));
    }
  }
}

TEST_CASE("cuda permute: a number, one axis, and six of them") {
  CHECK(permuted_alike(numbered({}, DType::float32), {}));
  CHECK(permuted_alike(numbered({77}, DType::float32), {0}));
  CHECK(permuted_alike(numbered({2, 3, 4, 2, 3, 9}, DType::float32), {5, 3, 1, 0, 2, 4}));
  CHECK(permuted_alike(numbered({0, 3, 9}, DType::float32), {2, 0, 1}));
}

TEST_CASE("cuda broadcast: by NumPy's rule, in every dtype") {
  for (const DType dtype : kAllTypes) {
    for (const Shape& shape :
         {Shape{}, Shape{1}, Shape{8}, Shape{5, 1}, Shape{3, 1, 8}, Shape{3, 1, 1}, Shape{5, 8}, Shape{3, 5, 8}}) {
      const Tensor x = numbered(shape, dtype), y = full({3, 5, 8}, -1.0, dtype);
      CAPTURE(to_string(shape));
      CHECK(
          same_on_both(x, y, [](const Kernels& on, const Tensor& from, const Tensor& to) { on.broadcast(from, to); }));
    }
  }
}

TEST_CASE("cuda copy_strided: every second row, backwards, and into part of another tensor; the rest stays") {
  for (const DType dtype : kAllTypes) {
    const Tensor x = numbered({6, 16}, dtype), y = full({5, 4, 16}, -1.0, dtype);
    const auto copied_alike = [&](const Shape& sizes, const Strides& from, const Strides& to) {
      return same_on_both(x, y, [&](const Kernels& on, const Tensor& source, const Tensor& target) {
        on.copy_strided(sizes, source, from, target, to);
      });
    };
    CHECK(copied_alike({3, 16}, {0, {32, 1}}, {16, {64, 1}}));
    CHECK(copied_alike({6, 16}, {80, {-16, 1}}, {0, {32, 1}}));
    CHECK(copied_alike({3, 5}, {3, {32, 3}}, {7, {64, 2}}));
    CHECK(copied_alike({2, 3, 4}, {0, {48, 16, 1}}, {4, {64, 16, 1}}));
    CHECK(copied_alike({0, 16}, {0, {16, 1}}, {0, {16, 1}}));
  }
}

TEST_CASE("cuda copy_block: a block is copied or added; the rest stays") {
  for (const DType dtype : kAllTypes) {
    const Tensor x = numbered({7, 24}, dtype), y = full({9, 32}, 5.0, dtype);
    for (const bool add : {false, true}) {
      for (const Index length : {24, 16, 5}) {
        const BlockCopy block{
            .count = 6, .length = length, .from = 24, .from_stride = 24, .to = 8, .to_stride = 32, .add = add};
        CHECK(same_on_both(
            x, y, [&](const Kernels& on, const Tensor& from, const Tensor& to) { on.copy_block(from, block, to); }));
      }
    }
  }
}

TEST_CASE("cuda copy_block: offsets beyond 2^31 elements") {
  if (!on_gpu()) return;  // 4 GB
  constexpr Index size = (Index{1} << 31) + 9;
  const Tensor large = full({size}, 1.0, DType::bfloat16, test_device());
  device_kernels().affine(large, 2.0, 1.0, large);
  device_kernels().copy_block(on_device(tensor({7}, DType::bfloat16)), {.count = 1, .length = 1, .to = size - 2},
                              large);
  const Tensor last = zeros({4}, DType::bfloat16, test_device());
  device_kernels().copy_block(large, {.count = 1, .length = 4, .from = size - 4}, last);
  CHECK(distance(last, {3, 3, 7, 3}) == 0.0);
}
