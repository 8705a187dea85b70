// Matrix products, and sums of columns.

#include <algorithm>

#include <jnorm/core/gemm.hpp>
#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/parallel.hpp>
#include <jnorm/core/simd.hpp>

namespace jnorm::cpu {

namespace {

// A tensor as a batch of the matrices in its last two axes, stored as rows x columns.
template <class T>
struct Matrices {
  T* data;
  Index count, rows, columns;

  T* operator[](Index batch) const { return data + batch % count * rows * columns; }  // fewer than asked for repeat
};

template <class T>
Matrices<T> matrices(const Tensor& tensor, T* data) {
  Index count = 1;
  for (int axis = 0; axis < tensor.rank() - 2; ++axis) count *= tensor.dim(axis);
  return {data, count, tensor.dim(-2), tensor.dim(-1)};
}

// Multiplications from which on one product keeps all threads busy.
constexpr Index kWorkForAllThreads = Index{1} << 22;

// One vector of columns, summed up over the rows: halves of halves, since a sum of sums loses less to rounding than one
// long sum does.
template <class T>
Vector<T> sum_of_rows(const T* x, Index rows, Index width, Index lanes) {
  if (rows > 64) {
    const Index half = rows / 2;
    return sum_of_rows(x, half, width, lanes) + sum_of_rows(x + half * width, rows - half, width, lanes);
  }
  Vector<T> sum(T{0});
  for (Index row = 0; row < rows; ++row) sum += load_first(x + row * width, lanes);
  return sum;
}

}  // namespace

void matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, const Destination& y) {
  dispatch_wide("matmul", y.tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto left = matrices(a, a.data<T>());
    const auto right = matrices(b, b.data<T>());
    auto result = matrices(y.tensor, y.tensor.output_data<T>());
    const Index inner = transpose_a ? left.rows : left.columns;
    const T beta = y.add ? T{1} : T{0};
    if (right.count == 1 && !transpose_a) {  // one tall product: [batches, m, k] -> [batches * m, k]
      result.rows *= result.count;
      result.count = 1;
    }
    const Index work = result.rows * result.columns * inner;
    const Index grain = work >= kWorkForAllThreads ? result.count : grain_for(work / 8);
    parallel_for(result.count, std::max<Index>(1, grain), [&](Index begin, Index end) {
      for (Index batch = begin; batch < end; ++batch) {
        gemm(transpose_a, transpose_b, result.rows, result.columns, inner, T{1}, left[batch], left.columns,
             right[batch], right.columns, beta, result[batch], result.columns);
      }
    });
  });
}

void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) {
  dispatch_wide("linear", y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Index out = weight.dim(0), in = weight.dim(1);
    const Index rows = out == 0 ? 0 : y.size() / out;
    if (bias.defined()) {
      gemm_with_bias(false, true, rows, out, in, x.data<T>(), in, weight.data<T>(), in, bias.data<T>(),
                     y.output_data<T>(), out);
    } else {
      gemm(false, true, rows, out, in, T{1}, x.data<T>(), in, weight.data<T>(), in, T{0}, y.output_data<T>(), out);
    }
  });
}

void column_sum(const Tensor& x, const Destination& y) {
  dispatch_wide("column_sum", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Index width = y.tensor.row_length();
    const Index copies = y.tensor.rows();
    if (y.tensor.size() == 0) return;
    const Index rows = x.size() / y.tensor.size();
    const Index strips = (width + kLanes<T> - 1) / kLanes<T>;
    parallel_for(copies * strips, grain_for(rows * kLanes<T>), [&](Index begin, Index end) {
      for (Index item = begin; item < end; ++item) {
        const Index copy = item / strips;
        const Index column = item % strips * kLanes<T>;
        const Index lanes = std::min(kLanes<T>, width - column);
        T* const to = y.tensor.output_data<T>() + copy * width + column;
        Vector<T> sum = sum_of_rows(x.data<T>() + copy * rows * width + column, rows, width, lanes);
        if (y.add) sum += load_first(to, lanes);
        store_first(to, sum, lanes);
      }
    });
  });
}

}  // namespace jnorm::cpu
