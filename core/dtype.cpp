#include <jnorm/core/dtype.hpp>

#include <array>
#include <cmath>
#include <limits>

#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

constexpr std::array<const char*, 5> kNames{"float64", "float32", "bfloat16", "float16", "int32"};

// To float32, where an inexact value gets an odd last bit: it then lies on the same side of every halfway point of a
// narrower type, so that rounding it once more gives what rounding the double would have given.
float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || !std::isfinite(nearest)) return nearest;
  auto word = std::bit_cast<std::uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --word;  // towards zero
  return std::bit_cast<float>(word | 1u);
}

}  // namespace

BFloat16::BFloat16(double value) : BFloat16(round_to_odd(value)) {}

Float16::Float16(double value) : Float16(round_to_odd(value)) {}

BFloat16::BFloat16(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) {
    bits = static_cast<std::uint16_t>((word >> 16) | 0x40u);  // keep the sign, force a quiet NaN
    return;
  }
  const std::uint32_t round_to_even = 0x7fffu + ((word >> 16) & 1u);
  bits = static_cast<std::uint16_t>((word + round_to_even) >> 16);
}

Float16::Float16(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((word >> 16) & 0x8000u);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) {
    bits = static_cast<std::uint16_t>(sign | 0x7e00u);
  } else if (magnitude >= 65520.0F) {  // halfway between the largest value, 65504, and 2^16
    bits = static_cast<std::uint16_t>(sign | 0x7c00u);
  } else if (magnitude < 0x1p-14F) {
    // Subnormal: units of 2^-24. nearbyint rounds half to even; 2^10 units is the smallest normal number.
    bits = static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::nearbyint(magnitude * 0x1p24F)));
  } else {
    const std::uint32_t rebased = (word & 0x7fffffffu) - (112u << 23);  // exponent bias 127 -> 15
    const std::uint32_t round_to_even = 0xfffu + ((rebased >> 13) & 1u);
    bits = static_cast<std::uint16_t>(sign | ((rebased + round_to_even) >> 13));
  }
}

Float16::operator float() const {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t widened = exponent == 31 ? 0x7f800000u : (exponent + 112u) << 23;
  return std::bit_cast<float>(sign | widened | (fraction << 13));
}

std::string to_string(DType dtype) { return kNames.at(static_cast<std::size_t>(dtype)); }

DType dtype_from_string(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<DType>(i);
  }
  fail(ErrorKind::argument, "dtype: expected float64, float32, bfloat16, float16 or int32, got '{}'", name);
}

double machine_epsilon(DType dtype) {
  switch (dtype) {
    case DType::float64: return std::numeric_limits<double>::epsilon();
    case DType::float32: return std::numeric_limits<float>::epsilon();
    case DType::bfloat16: return 0x1p-7;
    case DType::float16: return 0x1p-10;
    case DType::int32: break;
  }
  fail(ErrorKind::argument, "machine_epsilon: int32 has none");
}

DType statistics_dtype(DType dtype) {
  return dtype == DType::bfloat16 || dtype == DType::float16 ? DType::float32 : dtype;
}

void fail_unsupported_dtype(const char* operation, DType dtype) {
  fail(ErrorKind::argument, "{}: no path for {}; use float32 or float64", operation, dtype);
}

}  // namespace jnorm
