#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace jnorm {

// Sizes, offsets and counts of elements. Signed, 64 bits: 239674 * 8960 elements must not wrap.
using Index = std::int64_t;

// The sizes of a tensor's axes, held inline; row-major. A scalar has rank 0.
class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;

  // Throws Error(argument) if there are more than kMaxRank axes, a size is negative, or the product of the sizes that
  // aren't 0 overflows 64 bits.
  Shape(std::initializer_list<Index> sizes);
  explicit Shape(std::span<const Index> sizes);

  int rank() const { return rank_; }
  Index size() const { return size_; }  // number of elements

  // Size of an axis. A negative axis counts from the end. Throws Error(argument) if it is out of range.
  Index operator[](int axis) const { return sizes_[static_cast<std::size_t>(resolve_axis(axis))]; }
  Index last() const { return (*this)[-1]; }

  const Index* begin() const { return sizes_.data(); }
  const Index* end() const { return sizes_.data() + rank_; }

  // -1 -> rank - 1. Throws Error(argument) unless -rank <= axis < rank.
  int resolve_axis(int axis) const {
    const int resolved = axis < 0 ? axis + rank_ : axis;
    if (resolved < 0 || resolved >= rank_) fail_axis(axis);
    return resolved;
  }

  Shape with_leading(Index size) const;         // [A, B] -> [size, A, B]
  Shape with_trailing(Index size) const;        // [A, B] -> [A, B, size]
  Shape without_leading() const;                // [A, B] -> [B]
  Shape with_axis(int axis, Index size) const;  // the same rank, one size changed
  bool has_suffix(const Shape& suffix) const;   // [A, B, C] has suffix [B, C]
  bool broadcasts_to(const Shape& to) const;    // [1, C] to [A, B, C]: NumPy's rule

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (std::size_t i = 0; i < a.rank_; ++i) {
      if (a.sizes_[i] != b.sizes_[i]) return false;
    }
    return true;
  }

 private:
  [[noreturn]] void fail_axis(int axis) const;

  std::array<Index, kMaxRank> sizes_{};
  Index size_ = 1;
  std::uint8_t rank_ = 0;
};

std::string to_string(const Shape& shape);  // "[2, 3]"

// The shape that both broadcast to, NumPy's rule: aligned at the last axis, equal or 1. Throws Error(argument).
Shape broadcast_shapes(const Shape& a, const Shape& b);

// a * b, or Error(argument) if it doesn't fit into 64 bits.
Index checked_product(Index a, Index b);

// Offset of element [row, column] in a row-major matrix with rows of `width` elements.
constexpr Index row_major_offset(Index row, Index width, Index column) { return row * width + column; }

}  // namespace jnorm
