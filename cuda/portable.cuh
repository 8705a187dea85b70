#pragma once

// The one place that differs between nvcc and the execution on a CPU that the tests bring (tests/cuda/execution), which
// runs the same kernels thread by thread to check them where there is no GPU. Kernels speak to the machine through
// these names alone: blocks have one axis and whole warps, shared memory is dynamic, warp collectives take whole warps.

#include <cmath>
#include <cstdint>
#include <cstring>

#include <jnorm/core/dtype.hpp>
#include <jnorm/core/shape.hpp>
#include <jnorm/cuda/config.hpp>

#if defined(__CUDACC__)

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// A function of device code; a function of device code that the host calls too; a kernel and the most threads that a
// block of it has. The kernel gets all the registers that one such block can have: ptxas would spill some to make room
// for a second one.
#define JNORM_DEVICE __device__ __forceinline__
#define JNORM_HOST_DEVICE __host__ __device__ __forceinline__
#define JNORM_KERNEL(threads) __global__ void __launch_bounds__(threads, 1)
#define JNORM_UNROLL _Pragma("unroll")
#define JNORM_PRAGMA(text) _Pragma(#text)
#define JNORM_UNROLL_BY(times) JNORM_PRAGMA(unroll times)

namespace jnorm::cuda {

using DeviceBFloat16 = __nv_bfloat16;
using DeviceFloat16 = __half;

JNORM_DEVICE int thread_index() { return static_cast<int>(threadIdx.x); }
JNORM_DEVICE int block_size() { return static_cast<int>(blockDim.x); }
JNORM_DEVICE Index block_x() { return static_cast<Index>(blockIdx.x); }
JNORM_DEVICE Index block_y() { return static_cast<Index>(blockIdx.y); }
JNORM_DEVICE Index grid_x() { return static_cast<Index>(gridDim.x); }
JNORM_DEVICE Index grid_y() { return static_cast<Index>(gridDim.y); }

// Every live thread of the block, or of the warp, arrives before one goes on; memory written before is seen after.
JNORM_DEVICE void block_barrier() { __syncthreads(); }
JNORM_DEVICE void warp_barrier() { __syncwarp(); }

// The block's shared memory, as much as the launch asked for. Aligned to 16 bytes, not initialized.
template <class T>
JNORM_DEVICE T* dynamic_smem() {
  extern __shared__ __align__(16) unsigned char memory[];
  return reinterpret_cast<T*>(memory);
}

// Warp collectives of all 32 lanes, for float, double, int, unsigned and 64-bit integers.
template <class T>
JNORM_DEVICE T shuffle_xor(T value, int lanes) {
  return __shfl_xor_sync(0xffffffffU, value, lanes);
}
template <class T>
JNORM_DEVICE T shuffle(T value, int source_lane) {
  return __shfl_sync(0xffffffffU, value, source_lane);
}
JNORM_DEVICE unsigned ballot(bool predicate) { return __ballot_sync(0xffffffffU, predicate); }

// For flags and counts of integers alone: sums of floats in an order that changes would not be deterministic.
JNORM_DEVICE void atomic_add(int* address, int value) { atomicAdd(address, value); }

// Loads `Raw`, an unsigned integer of 4, 8 or 16 bytes, from an address that its size divides; stores it.
template <class Raw>
JNORM_DEVICE Raw load_aligned(const void* address) {
  return *static_cast<const Raw*>(address);
}
template <class Raw>
JNORM_DEVICE void store_aligned(void* address, Raw value) {
  *static_cast<Raw*>(address) = value;
}
// A load from memory that the kernel doesn't write, which the compiler may then move before the kernel's stores.
template <class Raw>
JNORM_DEVICE Raw load_read_only(const Raw* address) {
  return __ldg(address);
}
// A store to the device's memory in one instruction: the compiler splits some of store_aligned's.
template <class Raw>
JNORM_DEVICE void store_global(Raw* address, Raw value) {
  __stwb(address, value);
}
using Bytes16 = uint4;
using Bytes8 = uint2;
using Bytes4 = unsigned;

JNORM_DEVICE float reciprocal_root(float x) { return rsqrtf(x); }
JNORM_DEVICE double reciprocal_root(double x) { return rsqrt(x); }
// To about 2^-20 in a few instructions: enough for what is rounded to a narrow type.
JNORM_DEVICE float fast_exp(float x) { return __expf(x); }

// Of half turns: sin(pi x) and cos(pi x).
JNORM_DEVICE double sin_pi(double x) { return sinpi(x); }
JNORM_DEVICE double cos_pi(double x) { return cospi(x); }

}  // namespace jnorm::cuda

#else

#include <cuda/execution/device_code.hpp>

#endif

namespace jnorm::cuda {

JNORM_DEVICE int lane_index() { return thread_index() % kWarpSize; }
JNORM_DEVICE int warp_index() { return thread_index() / kWarpSize; }

// The type by which device code knows the elements of a dtype, whose C++ type on the host is T.
template <class T>
struct DeviceTypeOf {
  using type = T;
};
template <>
struct DeviceTypeOf<BFloat16> {
  using type = DeviceBFloat16;
};
template <>
struct DeviceTypeOf<Float16> {
  using type = DeviceFloat16;
};
template <class T>
using DeviceType = typename DeviceTypeOf<T>::type;

// What arithmetic on elements runs in: float32 for the narrow types, rounded once at the store.
template <class T>
struct WideOf {
  using type = float;
};
template <>
struct WideOf<double> {
  using type = double;
};
template <class T>
using Wide = typename WideOf<T>::type;

template <class T>
JNORM_DEVICE Wide<T> widen(T value) {
  return static_cast<Wide<T>>(value);
}
template <class T>
JNORM_DEVICE T narrow(Wide<T> value) {
  return static_cast<T>(value);
}

}  // namespace jnorm::cuda
