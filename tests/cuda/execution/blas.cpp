// Matrix products of a device that a CPU executes: plain sums, in cuBLAS's place.

#include <jnorm/cuda/blas.hpp>

#include <type_traits>

namespace jnorm::cuda {

namespace {

template <class T>
void multiply(const MatrixProduct& product, const T* a, const T* b, T* y) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  for (Index row = 0; row < product.rows; ++row) {
    for (Index column = 0; column < product.columns; ++column) {
      Wide sum = 0;
      for (Index k = 0; k < product.inner; ++k) {
        const Index at_a = product.transpose_a ? k * product.rows + row : row * product.inner + k;
        const Index at_b = product.transpose_b ? column * product.inner + k : k * product.columns + column;
        sum += static_cast<Wide>(a[at_a]) * static_cast<Wide>(b[at_b]);
      }
      T& result = y[row * product.columns + column];
      result = static_cast<T>(product.add ? static_cast<Wide>(result) + sum : sum);
    }
  }
}

}  // namespace

void multiply_matrices(Context& /*context*/, const MatrixProduct& product, const void* a, const void* b, void* y) {
  dispatch_floating("matmul", product.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (Index batch = 0; batch < product.batches; ++batch) {
      multiply(product, static_cast<const T*>(a) + batch * product.stride_a,
               static_cast<const T*>(b) + batch * product.stride_b, static_cast<T*>(y) + batch * product.stride_y);
    }
  });
}

}  // namespace jnorm::cuda
