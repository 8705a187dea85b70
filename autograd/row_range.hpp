#pragma once

#include <algorithm>

#include <jnorm/core/shape.hpp>

namespace jnorm {

// Rows [begin, end) of a value, its leading axes flattened.
struct RowRange {
  Index begin = 0;
  Index end = 0;

  Index count() const { return end - begin; }
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

// The smallest range that holds both.
inline RowRange hull(const RowRange& a, const RowRange& b) {
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

}  // namespace jnorm
