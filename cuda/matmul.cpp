// Matrix products: batches of them laid out for cuBLAS.

#include <algorithm>

#include <jnorm/cuda/blas.hpp>
#include <jnorm/cuda/kernels.hpp>

namespace jnorm::cuda {

namespace {

// A tensor as a batch of the matrices in its last two axes.
struct Matrices {
  Index count, rows, columns;
  Index size() const { return rows * columns; }
};

Matrices matrices(const Tensor& tensor) {
  Index count = 1;
  for (int axis = 0; axis < tensor.rank() - 2; ++axis) count *= tensor.dim(axis);
  return {count, tensor.dim(-2), tensor.dim(-1)};
}

const void* advanced(const Tensor& tensor, Index elements) {
  return static_cast<const char*>(tensor.device_data()) + elements * size_of(tensor.dtype());
}
void* advanced_output(const Tensor& tensor, Index elements) {
  return static_cast<char*>(tensor.device_data()) + elements * size_of(tensor.dtype());
}

}  // namespace

void matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, const Destination& y) {
  if (!y.wanted() || y.tensor.size() == 0) return;
  const Matrices left = matrices(a), right = matrices(b), result = matrices(y.tensor);
  Context& context = context_of(y.tensor);
  MatrixProduct product{.dtype = y.tensor.dtype(),
                        .rows = result.rows,
                        .columns = result.columns,
                        .inner = transpose_a ? left.rows : left.columns,
                        .transpose_a = transpose_a,
                        .transpose_b = transpose_b,
                        .add = y.add};
  if (product.inner == 0) {
    if (!y.add) fill(y.tensor, 0.0);
    return;
  }
  if (right.count == 1 && !transpose_a) {  // one tall product: [batches, m, k] -> [batches * m, k]
    product.rows *= result.count;
    multiply_matrices(context, product, a.device_data(), b.device_data(), y.tensor.device_data());
    return;
  }
  // The operand with fewer matrices repeats: a call for each time that it does, or its one matrix for all.
  const Index repeated = std::min(left.count, right.count);
  product.batches = repeated == 1 ? result.count : repeated;
  product.stride_a = left.count == 1 ? 0 : left.size();
  product.stride_b = right.count == 1 ? 0 : right.size();
  product.stride_y = result.size();
  for (Index first = 0; first < result.count; first += product.batches) {
    multiply_matrices(context, product, advanced(a, first % left.count * left.size()),
                      advanced(b, first % right.count * right.size()),
                      advanced_output(y.tensor, first * result.size()));
  }
}

void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) {
  const Index out = weight.dim(0), in = weight.dim(1);
  if (y.size() == 0) return;
  if (in == 0) {
    fill(y, 0.0);
  } else {
    multiply_matrices(context_of(y),
                      {.dtype = y.dtype(), .rows = y.size() / out, .columns = out, .inner = in, .transpose_b = true},
                      x.device_data(), weight.device_data(), y.device_data());
  }
  if (bias.defined()) binary(BinaryOp::add, y, bias, y);
}

}  // namespace jnorm::cuda
