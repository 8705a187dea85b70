#pragma once

// What the tests of the kernels share.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <jnorm/core/kernels.hpp>
#include <jnorm/core/parallel.hpp>
#include <jnorm/core/tensor.hpp>

namespace jnorm::test {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr std::array kWideTypes{DType::float32, DType::float64};
// Around the number of elements in a SIMD batch, so that whole batches, several of them and leftovers all occur.
inline constexpr std::array<Index, 9> kRowLengths{1, 3, 7, 8, 16, 17, 33, 64, 131};

inline const Kernels& cpu() { return Device::cpu().kernels(); }

// One parameter's step.
inline void adam(const Kernels& kernels, const AdamStep& step, const Tensor& gradient, const Tensor& parameter,
                 const Tensor& m, const Tensor& v) {
  const AdamUpdate update{step, gradient, parameter, m, v};
  kernels.adam({&update, 1});
}
inline void sgd(const Kernels& kernels, const SgdStep& step, const Tensor& gradient, const Tensor& parameter,
                const Tensor& velocity) {
  const SgdUpdate update{step, gradient, parameter, velocity};
  kernels.sgd({&update, 1});
}

// Values of size 1, computed through sums over rows of about a hundred: errors of some roundings, far below any term.
inline double tolerance(DType dtype) { return 32 * machine_epsilon(dtype); }

// Uniform in [-2, 2), rounded to dtype.
inline Tensor random(const Shape& shape, DType dtype, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(-2, 2);
  std::vector<double> values(static_cast<std::size_t>(shape.size()));
  for (double& value : values) value = uniform(generator);
  return tensor(shape, values, dtype);
}

// What an output may hold before it is written.
inline Tensor garbage(const Shape& shape, DType dtype) { return full(shape, kNaN, dtype); }
inline Tensor garbage_like(const Tensor& x) { return garbage(x.shape(), x.dtype()); }

// The largest difference of elements, relative where the right value is above 1; infinite where just one is NaN or the
// sizes differ.
inline double distance(const std::vector<double>& got, const std::vector<double>& right) {
  if (got.size() != right.size()) return kInfinity;
  double largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == right[i] || (std::isnan(got[i]) && std::isnan(right[i]))) continue;
    const double difference = std::abs(got[i] - right[i]) / std::max(1.0, std::abs(right[i]));
    largest = std::isnan(difference) ? kInfinity : std::max(largest, difference);
  }
  return largest;
}
inline double distance(const Tensor& got, const std::vector<double>& right) { return distance(got.values(), right); }
inline double distance(const Tensor& got, const Tensor& right) { return distance(got.values(), right.values()); }

inline double relative_error(double got, double right) { return std::abs(got / right - 1); }

// The same bits, NaN included.
inline bool identical(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::equal(static_cast<const char*>(a.raw_data()), static_cast<const char*>(a.raw_data()) + a.bytes(),
                    static_cast<const char*>(b.raw_data()));
}

// What f() returns under one thread and under several must be the same to the bit.
template <class F>
bool independent_of_threads(const F& f) {
  const int before = thread_count();
  set_thread_count(1);
  const Tensor alone = f();
  bool same = true;
  for (const int threads : {2, 3}) {
    set_thread_count(threads);
    same = same && identical(alone, f());
  }
  set_thread_count(before);
  return same;
}

// The part of a tensor with a leading axis that belongs to one copy.
inline Tensor copy_of(const Tensor& stacked, Index copy) {
  const Shape shape = stacked.shape().without_leading();
  const std::vector<double> values = stacked.values();
  return tensor(
      shape,
      std::span(values).subspan(static_cast<std::size_t>(copy * shape.size()), static_cast<std::size_t>(shape.size())),
      stacked.dtype());
}

}  // namespace jnorm::test
