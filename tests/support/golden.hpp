#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <jnorm/core/safetensors.hpp>

// Values that tests/golden/make.py got from PyTorch. A file has entries, an entry tensors: "<entry>/<tensor>".
using GoldenEntry = std::map<std::string, jnorm::Tensor>;

inline std::map<std::string, GoldenEntry> load_golden(const std::string& file) {
  std::map<std::string, GoldenEntry> entries;
  for (const auto& [name, tensor] : jnorm::load_safetensors(JNORM_GOLDEN "/" + file).tensors) {
    const std::size_t end = name.rfind('/');
    entries[name.substr(0, end)][name.substr(end + 1)] = tensor;
  }
  return entries;
}

// The largest difference of elements relative to the largest element that is expected, as the rounding errors of sums
// are. Terms that cancel leave no size to compare with, so the scale is never below `smallest_scale`. NaN equals NaN,
// and an infinity itself; otherwise they, and other shapes, are an infinite error.
inline double golden_error(const jnorm::Tensor& got, const jnorm::Tensor& expected, double smallest_scale = 0.1) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (got.shape() != expected.shape()) return infinity;
  const std::vector<double> left = got.values();
  const std::vector<double> right = expected.values();
  double scale = smallest_scale;
  for (const double value : right) {
    if (std::isfinite(value)) scale = std::max(scale, std::fabs(value));
  }
  double largest = 0.0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i] == right[i] || (std::isnan(left[i]) && std::isnan(right[i]))) continue;
    const double difference = std::fabs(left[i] - right[i]) / scale;
    largest = std::isnan(difference) ? infinity : std::max(largest, difference);
  }
  return largest;
}
