#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <ostream>
#include <vector>

#include <jnorm/core/tensor.hpp>

// Values that a tensor's elements must be near to: CHECK(y == close({1.5, 2.5})).
struct Close {
  std::vector<double> values;
  double tolerance;  // relative to the larger of 1 and the value
};

// The default suits values that are written with seven digits.
inline Close close(std::initializer_list<double> values, double tolerance = 1e-6) { return {values, tolerance}; }

inline bool operator==(const jnorm::Tensor& tensor, const Close& expected) {
  const std::vector<double> values = tensor.values();
  return std::equal(
      values.begin(), values.end(), expected.values.begin(), expected.values.end(),
      [&](double a, double b) { return std::fabs(a - b) <= expected.tolerance * std::max(1.0, std::fabs(b)); });
}

inline std::ostream& operator<<(std::ostream& out, const Close& expected) {
  for (const double value : expected.values) out << value << ' ';
  return out;
}

namespace jnorm {
inline std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << to_string(tensor); }
inline std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << to_string(shape); }
}  // namespace jnorm
