#pragma once

// What cuda/portable.cuh gives kernels of the machine, where they run on a CPU: the same names, with checks.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <type_traits>

#include <jnorm/core/dtype.hpp>
#include <jnorm/core/shape.hpp>
#include <jnorm/core/source_line.hpp>

#include <cuda/execution/launch.hpp>
#include <cuda/execution/machine.hpp>

#define JNORM_DEVICE inline
#define JNORM_HOST_DEVICE inline
#define JNORM_KERNEL(threads) __attribute__((noinline)) void  // so that sanitizers' reports name it
#define JNORM_UNROLL
#define JNORM_UNROLL_BY(times)

namespace jnorm::cuda {

using DeviceBFloat16 = BFloat16;
using DeviceFloat16 = Float16;

// CUDA's functions are overloaded for float and double, as the standard library's are in std.
using std::abs, std::ceil, std::copysign, std::cos, std::cosh, std::erf, std::erfc, std::exp, std::exp2, std::expm1,
    std::fabs, std::floor, std::fma, std::fmax, std::fmin, std::fmod, std::isfinite, std::isinf, std::isnan, std::ldexp,
    std::log, std::log1p, std::log2, std::max, std::min, std::pow, std::rint, std::round, std::signbit, std::sin,
    std::sinh, std::sqrt, std::tan, std::tanh, std::trunc;

inline int thread_index() { return execution::place.thread; }
inline int block_size() { return execution::place.block_size; }
inline Index block_x() { return execution::place.block_x; }
inline Index block_y() { return execution::place.block_y; }
inline Index grid_x() { return execution::place.grid_x; }
inline Index grid_y() { return execution::place.grid_y; }

inline void block_barrier(SourceLine line = SourceLine::here()) { execution::block_barrier(line); }
inline void warp_barrier(SourceLine line = SourceLine::here()) {
  execution::collective(execution::Collective::warp_barrier, 0, 0, line);
}

template <class T>
T* dynamic_smem() {
  return reinterpret_cast<T*>(execution::place.shared);
}

namespace execution {

template <class T>
T exchange(Collective kind, T value, int source_lane, SourceLine line) {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8);
  std::uint64_t brought = 0;
  std::memcpy(&brought, &value, sizeof value);
  brought = collective(kind, brought, source_lane, line);
  std::memcpy(&value, &brought, sizeof value);
  return value;
}

template <class T>
void expect_aligned(const void* address, SourceLine line) {
  if (reinterpret_cast<std::uintptr_t>(address) % sizeof(T) != 0) [[unlikely]]
    report_misaligned(address, sizeof(T), line);
}

}  // namespace execution

template <class T>
T shuffle_xor(T value, int lanes, SourceLine line = SourceLine::here()) {
  const int source_lane = execution::place.thread % 32 ^ lanes;
  return execution::exchange(execution::Collective::shuffle_xor, value, source_lane, line);
}
template <class T>
T shuffle(T value, int source_lane, SourceLine line = SourceLine::here()) {
  return execution::exchange(execution::Collective::shuffle, value, source_lane, line);
}
inline unsigned ballot(bool predicate, SourceLine line = SourceLine::here()) {
  return static_cast<unsigned>(execution::collective(execution::Collective::ballot, predicate ? 1 : 0, 0, line));
}

inline void atomic_add(int* address, int value) {
  std::atomic_ref<int>(*address).fetch_add(value, std::memory_order_relaxed);
}

struct alignas(16) Bytes16 {
  std::uint32_t x, y, z, w;
};
struct alignas(8) Bytes8 {
  std::uint32_t x, y;
};
using Bytes4 = std::uint32_t;

// Copied as bytes: the elements at the address are of another type.
template <class Raw>
Raw load_aligned(const void* address, SourceLine line = SourceLine::here()) {
  execution::expect_aligned<Raw>(address, line);
  Raw raw;
  std::memcpy(&raw, address, sizeof raw);
  return raw;
}
template <class Raw>
void store_aligned(void* address, Raw value, SourceLine line = SourceLine::here()) {
  execution::expect_aligned<Raw>(address, line);
  std::memcpy(address, &value, sizeof value);
}

template <class T>
T load_read_only(const T* address, SourceLine line = SourceLine::here()) {
  execution::expect_aligned<T>(address, line);
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

template <class Raw>
void store_global(Raw* address, Raw value, SourceLine line = SourceLine::here()) {
  store_aligned<Raw>(address, value, line);
}

inline float reciprocal_root(float x) { return 1 / std::sqrt(x); }
inline double reciprocal_root(double x) { return 1 / std::sqrt(x); }
inline double sin_pi(double x) { return std::sin(std::numbers::pi * x); }
inline double cos_pi(double x) { return std::cos(std::numbers::pi * x); }
inline float fast_exp(float x) { return std::exp(x); }

}  // namespace jnorm::cuda
