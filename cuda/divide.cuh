#pragma once

// Division by a number that is the same for all threads of a launch.

#include <bit>

#include <jnorm/cuda/portable.cuh>

namespace jnorm::cuda {

// While both numbers have less than 32 bits, the quotient is the upper half of a product (Granlund and Montgomery
// 1994): four instructions, where a GPU's division of 32 bits takes some twenty and one of 64 bits a hundred.
class Divisor {
 public:
  explicit Divisor(Index value = 1) : value_(value) {  // above 0
    if (value >> 31 != 0) return;
    const auto d = static_cast<std::uint64_t>(value);
    shift_ = static_cast<std::uint32_t>(std::bit_width(d - 1));  // 2^shift >= d
    multiplier_ = static_cast<std::uint32_t>(((((std::uint64_t{1} << shift_) - d) << 32) / d) + 1);
  }

  JNORM_HOST_DEVICE Index value() const { return value_; }
  // n is not negative.
  JNORM_HOST_DEVICE Index quotient(Index n) const {
    if ((n | value_) >> 31 != 0) return n / value_;
    const auto small = static_cast<std::uint32_t>(n);
    const auto upper = static_cast<std::uint32_t>((std::uint64_t{small} * multiplier_) >> 32);
    return (upper + small) >> shift_;
  }
  JNORM_HOST_DEVICE Index remainder(Index n) const { return n - quotient(n) * value_; }

 private:
  Index value_;
  std::uint32_t multiplier_ = 0, shift_ = 0;
};

}  // namespace jnorm::cuda
