#pragma once

// Neighbouring elements that are loaded and stored at once: 16 bytes, where addresses allow it.

#include <jnorm/cuda/portable.cuh>

namespace jnorm::cuda {

template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T values[N];
  JNORM_DEVICE T& operator[](int i) { return values[i]; }
  JNORM_DEVICE const T& operator[](int i) const { return values[i]; }
};

// How many elements 16 bytes hold.
template <class T>
constexpr int kPackSize = static_cast<int>(16 / sizeof(T));

template <int Bytes>
struct RawOf;
template <>
struct RawOf<16> {
  using type = Bytes16;
};
template <>
struct RawOf<8> {
  using type = Bytes8;
};
template <>
struct RawOf<4> {
  using type = Bytes4;
};

// The address is a multiple of the pack's size; see packs_fit.
template <int N, class T>
JNORM_DEVICE Pack<T, N> load_pack(const T* address) {
  if constexpr (N == 1) {
    return {*address};
  } else {
    using Raw = typename RawOf<static_cast<int>(sizeof(T)) * N>::type;
    const Raw raw = load_aligned<Raw>(address);
    Pack<T, N> pack;
    memcpy(static_cast<void*>(&pack), &raw, sizeof raw);
    return pack;
  }
}

// The same from memory that the kernel doesn't write.
template <int N, class T>
JNORM_DEVICE Pack<T, N> load_input_pack(const T* address) {
  if constexpr (N == 1) {
    return {load_read_only(address)};
  } else {
    using Raw = typename RawOf<static_cast<int>(sizeof(T)) * N>::type;
    const Raw raw = load_read_only(reinterpret_cast<const Raw*>(address));
    Pack<T, N> pack;
    memcpy(static_cast<void*>(&pack), &raw, sizeof raw);
    return pack;
  }
}

template <int N, class T>
JNORM_DEVICE void store_pack(T* address, const Pack<T, N>& pack) {
  if constexpr (N == 1) {
    *address = pack.values[0];
  } else {
    using Raw = typename RawOf<static_cast<int>(sizeof(T)) * N>::type;
    Raw raw;
    memcpy(&raw, &pack, sizeof raw);
    store_aligned<Raw>(address, raw);
  }
}

// The same to the device's memory, not to shared memory: always in one instruction.
template <int N, class T>
JNORM_DEVICE void store_output_pack(T* address, const Pack<T, N>& pack) {
  if constexpr (N == 1) {
    *address = pack.values[0];
  } else {
    using Raw = typename RawOf<static_cast<int>(sizeof(T)) * N>::type;
    Raw raw;
    memcpy(&raw, &pack, sizeof raw);
    store_global(reinterpret_cast<Raw*>(address), raw);
  }
}

// On the host: whether rows of `length` elements that begin at `address` can be read in packs of N, each aligned and
// none across a row's end. A null address (a tensor that is absent) fits always.
template <int N, class T>
bool packs_fit(const T* address, Index length) {
  return reinterpret_cast<std::uintptr_t>(address) % (sizeof(T) * N) == 0 && length % N == 0;
}

}  // namespace jnorm::cuda
