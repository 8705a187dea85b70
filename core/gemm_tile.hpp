#pragma once

// Private to the library's sources: the innermost loop of matrix products, for the sources that build on it.

#include <jnorm/core/simd.hpp>

namespace jnorm {

// Elements that lie `row_stride` and `column_stride` apart, so that a transposed matrix is only another view.
template <class T>
struct MatrixView {
  T* data;
  Index row_stride, column_stride;

  T* at(Index row, Index column) const { return data + row * row_stride + column * column_stride; }
  MatrixView from(Index row, Index column) const { return {at(row, column), row_stride, column_stride}; }
};

// tile[Rows, Vectors * lanes] = a[Rows, inner] b[inner, Vectors * lanes], kept in registers throughout.
// a's elements are broadcast one by one, so any strides will do; b's rows are contiguous, b_stride apart.
template <int Rows, int Vectors, class T>
inline void multiply_tile(Index inner, MatrixView<const T> a, const T* b, Index b_stride,
                          Vector<T> (&tile)[Rows][Vectors]) {
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) tile[r][v] = Vector<T>(T{0});
  }
  for (Index p = 0; p < inner; ++p) {
    Vector<T> b_row[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) b_row[v] = Vector<T>::load_unaligned(b + p * b_stride + v * kLanes<T>);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const Vector<T> a_element(*a.at(r, p));
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) tile[r][v] = xsimd::fma(a_element, b_row[v], tile[r][v]);
    }
  }
}

}  // namespace jnorm
