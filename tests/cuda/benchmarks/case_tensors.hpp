#pragma once

// The tensors of a case, and how its results are compared with float64's.

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <fmt/format.h>

#include <jnorm/core/kernels.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/cuda/config.hpp>

#include "cuda/benchmarks/cases.hpp"

namespace jnorm::test {

// Makes tensors of one dtype on a device.
class Maker {
 public:
  Maker(Device device, DType dtype, Index mebibytes) : device_(device), dtype_(dtype), bytes_(mebibytes << 20) {}

  Device device() const { return device_; }
  DType dtype() const { return dtype_; }
  DType statistics() const { return statistics_dtype(dtype_); }
  Index element() const { return size_of(dtype_); }
  // How many elements are loaded at once from rows of so many columns.
  int pack(Index columns) const { return columns % (16 / element()) == 0 ? static_cast<int>(16 / element()) : 1; }
  const Kernels& kernels() const { return device_.kernels(); }

  // As many as fill a tensor, and where they are many, a multiple of those after which random elements repeat.
  Index rows(Index columns) const {
    const Index rows = std::max<Index>(bytes_ / (columns * element()), 1);
    return rows < kTile ? rows : rows / kTile * kTile;
  }

  // Enough that all of them, with so many large tensors each, are four times an H200's cache.
  Index sets(Index tensors) const { return std::max<Index>(cuda::ceil_divide(240'000'000, tensors * bytes_), 2); }

  Tensor empty(const Shape& shape) const { return empty(shape, dtype_); }
  Tensor empty(const Shape& shape, DType dtype) const { return Tensor::uninitialized(shape, dtype, device_); }

  // Uniform in [-2, 2).
  Tensor random(const Shape& shape, unsigned seed) const {
    const Index tiles = shape[0] % kTile == 0 ? shape[0] / kTile : 1;
    std::mt19937 generator(seed);
    std::uniform_real_distribution<float> uniform(-2, 2);
    const Tensor tile = Tensor::uninitialized({shape.size() / tiles});
    std::generate_n(tile.output_data<float>(), tile.size(), [&] { return uniform(generator); });
    return broadcast_to(tile.to(dtype_).to(device_), {tiles, tile.size()}).reshape(shape);
  }
  Tensor random_targets(Index rows, Index classes) const {
    const Tensor targets = Tensor::uninitialized({rows}, DType::int32);
    std::mt19937 generator(1);
    std::uniform_int_distribution<std::int32_t> uniform(0, static_cast<std::int32_t>(classes - 1));
    std::generate_n(targets.output_data<std::int32_t>(), rows, [&] { return uniform(generator); });
    return targets.to(device_);
  }

 private:
  static constexpr Index kTile = 64;

  Device device_;
  DType dtype_;
  Index bytes_;
};

// What make() makes, so many times.
template <class Make>
auto repeat(Index count, const Make& make) {
  std::vector<decltype(make())> made;
  for (Index i = 0; i < count; ++i) made.push_back(make());
  return made;
}

// make_case(maker, number) for both dtypes that models train in, and every number.
template <class Function>
void add_cases(std::vector<CaseMaker>& cases, const char* kernel, Device device, Index mebibytes,
               std::initializer_list<Index> numbers, const Function& make_case) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    for (const Index number : numbers) {
      cases.push_back({kernel, [=] { return make_case(Maker(device, dtype, mebibytes), number); }});
    }
  }
}

inline const Kernels& cpu() { return Device::cpu().kernels(); }
inline Tensor wide_on_cpu(const Tensor& x) {
  const Tensor here = x.to(Device::cpu());
  return here.dtype() == DType::int32 ? here : here.to(DType::float64);
}
inline Tensor wide_like(const Tensor& x) { return Tensor::uninitialized(x.shape(), DType::float64); }

// Four slices along an axis, the first and the last among them, in float64 on the CPU.
inline Tensor sample(const Tensor& x, int axis) {
  const auto last = static_cast<std::int32_t>(x.dim(axis) - 1);
  const Tensor index = indices({4}, std::array<std::int32_t, 4>{0, last / 3, last / 2, last}).to(x.device());
  const Tensor slices = Tensor::uninitialized(x.shape().with_axis(axis, index.size()), x.dtype(), x.device());
  x.device().kernels().index_select(x, axis, index, slices);
  return wide_on_cpu(slices);
}

// What one rounding of a narrow result may lose, or sums of wide numbers. Other errors are relative to results of the
// size `scale`, or larger.
inline double error_of(const Tensor& got, const Tensor& right, DType dtype, double scale = 1.0) {
  const double allowed = machine_epsilon(dtype) * (statistics_dtype(dtype) == dtype ? 64 : 0.51);
  const std::vector<double> left = got.values(), expected = right.values();
  double largest = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error = std::fabs(left[i] - expected[i]) / std::max(scale, std::fabs(expected[i]));
    if (!(error <= largest)) largest = error;
  }
  return largest / allowed;
}

inline std::string shape_name(Index rows, Index columns) { return fmt::format("{}x{}", rows, columns); }

}  // namespace jnorm::test
