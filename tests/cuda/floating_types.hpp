#pragma once

// The dtypes that kernels of a device are tested in, and how exact they are.

#include <array>

#include <jnorm/core/dtype.hpp>

namespace jnorm::test {

inline constexpr std::array kFloatingTypes{DType::float64, DType::float32, DType::bfloat16, DType::float16};
inline constexpr std::array kAllTypes{DType::float64, DType::float32, DType::bfloat16, DType::float16, DType::int32};

// How far a result of size 1 may be from float64's. A narrow type is off by its one rounding, half the distance of two
// numbers, and a little for the float32 before it; the wide types by the few last digits that a GPU's functions lose.
inline double a_few_roundings(DType dtype) {
  const bool narrow = statistics_dtype(dtype) != dtype;
  return machine_epsilon(dtype) * (narrow ? 0.51 : 8);
}

}  // namespace jnorm::test
