#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include <jnorm/core/error.hpp>

namespace jnorm {

// Element types. The narrow types are storage formats: arithmetic on them widens to float32 and rounds once.
// int32 holds indices (tokens, targets) and takes part in no arithmetic.
enum class DType : std::uint8_t { float64, float32, bfloat16, float16, int32 };

// A float32 cut to its upper 16 bits, rounded to nearest even; NaN stays NaN.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value);
  explicit BFloat16(double value);  // rounded once, not through float32's nearest
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

// IEEE 754 binary16, rounded to nearest even, subnormals included.
struct Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  explicit Float16(float value);
  explicit Float16(double value);
  explicit operator float() const;
};

std::string to_string(DType dtype);              // "float32"
DType dtype_from_string(std::string_view name);  // throws Error(argument) that lists the names
constexpr std::int64_t size_of(DType dtype) {    // bytes an element
  switch (dtype) {
    case DType::float64: return 8;
    case DType::bfloat16:
    case DType::float16: return 2;
    case DType::float32:
    case DType::int32: break;
  }
  return 4;
}

// The distance from 1 to the next larger value.
double machine_epsilon(DType dtype);

// What statistics, sums and other values that a derivative saves are kept in: float32 beside the narrow types, and the
// dtype itself otherwise.
DType statistics_dtype(DType dtype);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::float64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::float32;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bfloat16;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::float16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::int32;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

template <class T>
struct TypeTag {
  using type = T;
};

[[noreturn]] void fail_unsupported_dtype(const char* operation, DType dtype);

// Calls f(TypeTag<T>) with the C++ type of a wide floating-point dtype, which is all that arithmetic runs in.
template <class F>
decltype(auto) dispatch_wide(const char* operation, DType dtype, F&& f) {
  switch (dtype) {
    case DType::float64: return f(TypeTag<double>{});
    case DType::float32: return f(TypeTag<float>{});
    default: fail_unsupported_dtype(operation, dtype);
  }
}

// Calls f(TypeTag<T>) with the C++ type of any floating-point dtype.
template <class F>
decltype(auto) dispatch_floating(const char* operation, DType dtype, F&& f) {
  switch (dtype) {
    case DType::bfloat16: return f(TypeTag<BFloat16>{});
    case DType::float16: return f(TypeTag<Float16>{});
    default: return dispatch_wide(operation, dtype, static_cast<F&&>(f));
  }
}

// Calls f(TypeTag<T>) with the C++ type of any dtype.
template <class F>
decltype(auto) dispatch_any(const char* operation, DType dtype, F&& f) {
  if (dtype == DType::int32) return f(TypeTag<std::int32_t>{});
  return dispatch_floating(operation, dtype, static_cast<F&&>(f));
}

}  // namespace jnorm
