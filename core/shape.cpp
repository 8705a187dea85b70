#include <jnorm/core/shape.hpp>

#include <algorithm>

#include <jnorm/core/expect.hpp>

namespace jnorm {

Shape::Shape(std::initializer_list<Index> sizes) : Shape(std::span<const Index>(sizes.begin(), sizes.size())) {}

Shape::Shape(std::span<const Index> sizes) {
  expect(sizes.size() <= kMaxRank, "shape: at most {} axes are supported, got {}", kMaxRank, sizes.size());
  rank_ = static_cast<std::uint8_t>(sizes.size());
  bool empty = false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    expect(sizes[i] >= 0, "shape: sizes must not be negative, but axis {} has {}", i, sizes[i]);
    sizes_[i] = sizes[i];
    // Also beside an axis of 0, so that strides and the sizes of slices never overflow.
    if (sizes[i] != 0) size_ = checked_product(size_, sizes[i]);
    empty = empty || sizes[i] == 0;
  }
  if (empty) size_ = 0;
}

Shape Shape::with_leading(Index size) const {
  std::array<Index, kMaxRank + 1> sizes{size};
  std::copy(begin(), end(), sizes.begin() + 1);
  return Shape(std::span<const Index>(sizes.data(), static_cast<std::size_t>(rank_) + 1));
}

Shape Shape::with_trailing(Index size) const {
  std::array<Index, kMaxRank + 1> sizes{};
  *std::copy(begin(), end(), sizes.begin()) = size;
  return Shape(std::span<const Index>(sizes.data(), static_cast<std::size_t>(rank_) + 1));
}

Shape Shape::without_leading() const {
  expect(rank_ > 0, "shape: a scalar has no leading axis");
  return Shape(std::span<const Index>(begin() + 1, end()));
}

Shape Shape::with_axis(int axis, Index size) const {
  std::array<Index, kMaxRank> sizes = sizes_;
  sizes[static_cast<std::size_t>(resolve_axis(axis))] = size;
  return Shape(std::span<const Index>(sizes.data(), rank_));
}

bool Shape::has_suffix(const Shape& suffix) const {
  return suffix.rank_ <= rank_ && std::equal(suffix.begin(), suffix.end(), end() - suffix.rank_);
}

bool Shape::broadcasts_to(const Shape& to) const {
  if (rank() > to.rank()) return false;
  for (int axis = 1; axis <= rank(); ++axis) {
    if ((*this)[-axis] != to[-axis] && (*this)[-axis] != 1) return false;
  }
  return true;
}

void Shape::fail_axis(int axis) const {
  fail(ErrorKind::argument, "axis {} is out of range for shape {}", axis, to_string(*this));
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", ")); }

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  std::array<Index, Shape::kMaxRank> sizes{};
  const int rank = std::max(a.rank(), b.rank());
  for (int i = 1; i <= rank; ++i) {
    const Index in_a = i <= a.rank() ? a[-i] : 1;
    const Index in_b = i <= b.rank() ? b[-i] : 1;
    expect(in_a == in_b || in_a == 1 || in_b == 1, "shapes {} and {} don't broadcast: axis {} has {} and {}", a, b, -i,
           in_a, in_b);
    sizes[static_cast<std::size_t>(rank - i)] = in_a == 1 ? in_b : in_a;
  }
  return Shape(std::span<const Index>(sizes.data(), static_cast<std::size_t>(rank)));
}

Index checked_product(Index a, Index b) {
  Index product = 0;
  expect(!__builtin_mul_overflow(a, b, &product), "shape: {} * {} elements overflow 64 bits", a, b);
  return product;
}

}  // namespace jnorm
