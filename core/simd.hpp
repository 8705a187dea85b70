#pragma once

// Private to the library's sources: vectors of the widest kind that the compiler may use, and what xsimd lacks.

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"  // g++ 12 says these of its own AVX-512 headers (GCC bug 105593)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <xsimd/xsimd.hpp>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <algorithm>
#include <utility>

#include <jnorm/core/shape.hpp>

namespace jnorm {

template <class T>
using Vector = xsimd::batch<T>;
template <class T>
inline constexpr Index kLanes = static_cast<Index>(Vector<T>::size);

// The first `count` lanes from memory, zeros in the others; nothing beyond is read. 0 <= count <= kLanes.
template <class T>
inline Vector<T> load_first(const T* from, Index count) {
  if (count == kLanes<T>) return Vector<T>::load_unaligned(from);
  alignas(64) T lanes[kLanes<T>]{};
  std::copy_n(from, count, lanes);
  return Vector<T>::load_aligned(lanes);
}

// The first `count` lanes to memory; nothing beyond is written.
template <class T>
inline void store_first(T* to, Vector<T> vector, Index count) {
  if (count == kLanes<T>) return vector.store_unaligned(to);
  alignas(64) T lanes[kLanes<T>];
  vector.store_aligned(lanes);
  std::copy_n(lanes, count, to);
}

#ifdef __AVX512F__
inline __mmask16 first_lanes(Index count) { return static_cast<__mmask16>((1U << count) - 1); }

template <>
inline Vector<float> load_first(const float* from, Index count) {
  return _mm512_maskz_loadu_ps(first_lanes(count), from);
}
template <>
inline Vector<double> load_first(const double* from, Index count) {
  return _mm512_maskz_loadu_pd(static_cast<__mmask8>(first_lanes(count)), from);
}
template <>
inline void store_first(float* to, Vector<float> vector, Index count) {
  _mm512_mask_storeu_ps(to, first_lanes(count), vector);
}
template <>
inline void store_first(double* to, Vector<double> vector, Index count) {
  _mm512_mask_storeu_pd(to, static_cast<__mmask8>(first_lanes(count)), vector);
}
#endif

// The lanes a0 b0 a1 b1 ... of the two vectors' lower halves, or upper halves. (xsimd 8.1's zip_lo and zip_hi do this
// within each 128 bits on AVX-512.)
template <bool Upper, class T>
inline Vector<T> interleave(Vector<T> a, Vector<T> b) {
  return [&]<int... Lane>(std::integer_sequence<int, Lane...>) {
    constexpr int lanes = sizeof...(Lane);
    return Vector<T>(
        __builtin_shufflevector(a.data, b.data, ((Upper ? lanes / 2 : 0) + Lane / 2 + (Lane % 2) * lanes)...));
  }
  (std::make_integer_sequence<int, static_cast<int>(kLanes<T>)>{});
}

// Transposes a square of lanes held in registers. Each round interleaves the upper with the lower half of the rows,
// which rotates the bits of an element's (row, lane) number by one; log2(lanes) rounds swap row and lane.
template <class T>
inline void transpose_square(Vector<T> (&rows)[kLanes<T>]) {
  constexpr Index half = kLanes<T> / 2;
#pragma GCC unroll 4
  for (Index round = 1; round < kLanes<T>; round *= 2) {
    Vector<T> next[kLanes<T>];
#pragma GCC unroll 8
    for (Index i = 0; i < half; ++i) {
      next[2 * i] = interleave<false>(rows[i], rows[i + half]);
      next[2 * i + 1] = interleave<true>(rows[i], rows[i + half]);
    }
#pragma GCC unroll 16
    for (Index i = 0; i < kLanes<T>; ++i) rows[i] = next[i];
  }
}

}  // namespace jnorm
