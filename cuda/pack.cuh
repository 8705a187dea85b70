#pragma once

// Neighbouring elements that are loaded and stored at once: 16 bytes, where addresses allow it.

#include <type_traits>

#include <jnorm/cuda/portable.cuh>

namespace jnorm::cuda {

template <class T, int N>
struct alignas(N == 1 ? alignof(T) : sizeof(T) * N) Pack {
  T values[N];
  JNORM_DEVICE T& operator[](int i) { return values[i]; }
  JNORM_DEVICE const T& operator[](int i) const { return values[i]; }
};

// How many elements 16 bytes hold exactly, or else 1.
template <class T>
constexpr int kPackSize = 16 % sizeof(T) == 0 ? static_cast<int>(16 / sizeof(T)) : 1;
// The packs of rows: float64, which only the Jacobian tools need, is read one by one.
template <class T>
constexpr int kRowPack = sizeof(T) == 8 ? 1 : kPackSize<T>;

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

// The pack of a parameter that may be absent, widened.
template <int N, class T>
JNORM_DEVICE Pack<Wide<T>, N> load_wide_or(const T* parameter, Index offset, Wide<T> absent) {
  Pack<Wide<T>, N> wide;
  if (parameter == nullptr) {
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) wide[j] = absent;
  } else {
    const Pack<T, N> pack = load_input_pack<N>(parameter + offset);
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) wide[j] = widen(pack[j]);
  }
  return wide;
}

// Overwrites an element with a value rounded once, or adds the value to it.
template <class T>
JNORM_DEVICE void put(T& element, Wide<T> value, bool add) {
  element = narrow<T>(add ? widen(element) + value : value);
}

// The same for a pack.
template <class T, int N>
JNORM_DEVICE void put_pack(T* address, const Pack<Wide<T>, N>& values, bool add) {
  Pack<T, N> pack;
  if (add) pack = load_pack<N>(static_cast<const T*>(address));
  JNORM_UNROLL
  for (int j = 0; j < N; ++j) pack[j] = narrow<T>(add ? widen(pack[j]) + values[j] : values[j]);
  store_output_pack(address, pack);
}

// On the host: whether rows of `length` elements that begin at `address` can be read in packs of N, each aligned and
// none across a row's end. A null address (a tensor that is absent) fits always.
template <int N, class T>
bool packs_fit(const T* address, Index length) {
  return reinterpret_cast<std::uintptr_t>(address) % (sizeof(T) * N) == 0 && length % N == 0;
}

// Calls f with N, the elements of a pack, as a compile-time constant: those of a row's packs where they fit, or 1.
template <class T, class F>
void with_row_pack(bool fit, const F& f) {
  if constexpr (kRowPack < T >> 1) {
    if (fit) return f(std::integral_constant<int, kRowPack<T>>());
  }
  f(std::integral_constant<int, 1>());
}

}  // namespace jnorm::cuda
