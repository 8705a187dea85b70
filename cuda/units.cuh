#pragma once

// The types that elements move as where nothing is computed of them.

#include <jnorm/cuda/launch.cuh>

namespace jnorm::cuda {

// Calls f with an unsigned integer as large as the dtype's elements.
template <class F>
void dispatch_size(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 2: return f(TypeTag<std::uint16_t>{});
    case 4: return f(TypeTag<std::uint32_t>{});
    default: return f(TypeTag<std::uint64_t>{});
  }
}

// Calls f with a type of 2, 4, 8 or 16 bytes, which may be several elements.
template <class F>
void dispatch_unit(Index bytes, F&& f) {
  switch (bytes) {
    case 2: return f(TypeTag<std::uint16_t>{});
    case 4: return f(TypeTag<Bytes4>{});
    case 8: return f(TypeTag<Bytes8>{});
    default: return f(TypeTag<Bytes16>{});
  }
}

// How many elements of rows of `length` move as one: a power of two, at most 16 bytes.
inline Index common_unit(Index length, Index element_bytes) {
  Index unit = 16 / element_bytes;
  while (length % unit != 0) unit /= 2;
  return unit;
}

}  // namespace jnorm::cuda
