// Softmax and log-softmax over rows, and their derivatives from the saved output y.
//
//   [SM.1]  softmax:      y = exp(x - max) / sum exp(x - max)
//   [SM.2]                dx = y (dy - sum(dy y))
//   [SM.3]  log_softmax:  y = (x - max) - log sum exp(x - max)      dx = dy - exp(y) sum(dy)
//
// -inf is a masked element: its probability is exactly 0 and its gradient 0, as long as the row has a finite element.
// A row of nothing but -inf, and a row that holds +inf or NaN, is NaN throughout, as its definition (0/0, inf - inf)
// says.

#include <cmath>

#include <jnorm/core/dtype.hpp>
#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/kernels/rows.hpp>

namespace jnorm::cpu {

namespace {

template <class T>
void softmax_row(const T* x, Index length, T* y) {
  const Batch<T> largest(row_max(x, length));
  const auto sums = row_sums<1, T>(length, [=](auto at) {
    const Batch<T> weight = xsimd::exp(at.load(x) - largest);
    at.store(y, weight);
    return Batches<T, 1>{weight};
  });
  const Batch<T> scale(T(1) / sums[0]);
  for_each_batch<T>(0, length, [=](auto at) { at.store(y, at.load(y) * scale); });  // [SM.1]
}

template <class T>
void softmax_dx_row(const T* dy, const T* y, Index length, T* dx, bool add) {
  const auto sums = row_sums<1, T>(length, [=](auto at) { return Batches<T, 1>{at.load(dy) * at.load(y)}; });
  const Batch<T> mean_dy(sums[0]);  // weighted by y
  for_each_batch<T>(0, length, [=](auto at) { put(at, dx, at.load(y) * (at.load(dy) - mean_dy), add); });  // [SM.2]
}

template <class T>
void log_softmax_row(const T* x, Index length, T* y) {
  const Batch<T> largest(row_max(x, length));
  const auto sums = row_sums<1, T>(length, [=](auto at) { return Batches<T, 1>{xsimd::exp(at.load(x) - largest)}; });
  const Batch<T> log_sum(std::log(sums[0]));
  for_each_batch<T>(0, length, [=](auto at) { at.store(y, (at.load(x) - largest) - log_sum); });  // [SM.3]
}

template <class T>
void log_softmax_dx_row(const T* dy, const T* y, Index length, T* dx, bool add) {
  const auto sums = row_sums<1, T>(length, [=](auto at) { return Batches<T, 1>{at.load(dy)}; });
  const Batch<T> sum_dy(sums[0]);
  for_each_batch<T>(0, length,
                    [=](auto at) { put(at, dx, at.load(dy) - xsimd::exp(at.load(y)) * sum_dy, add); });  // [SM.3]
}

}  // namespace

void softmax(const Tensor& x, const Tensor& y) {
  dispatch_wide("softmax", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Rows in = rows_of<T>(x);
    const Rows out = output_rows<T>(y);
    for_each_row(x, [&](Index r) { softmax_row(in[r], in.length, out[r]); });
  });
}

void softmax_dx(const Tensor& dy, const Tensor& y, const Destination& dx) {
  if (!dx.wanted()) return;
  dispatch_wide("softmax_dx", y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Rows saved = rows_of<T>(y), cotangents = rows_of<T>(dy);
    const Rows out = output_rows<T>(dx.tensor);
    for_each_row_of_copies(copies_of(y, dy), y, [&](Index i, Index r) {
      softmax_dx_row(cotangents[i], saved[r], saved.length, out[i], dx.add);
    });
  });
}

void log_softmax(const Tensor& x, const Tensor& y) {
  dispatch_wide("log_softmax", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Rows in = rows_of<T>(x);
    const Rows out = output_rows<T>(y);
    for_each_row(x, [&](Index r) { log_softmax_row(in[r], in.length, out[r]); });
  });
}

void log_softmax_dx(const Tensor& dy, const Tensor& y, const Destination& dx) {
  if (!dx.wanted()) return;
  dispatch_wide("log_softmax_dx", y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Rows saved = rows_of<T>(y), cotangents = rows_of<T>(dy);
    const Rows out = output_rows<T>(dx.tensor);
    for_each_row_of_copies(copies_of(y, dy), y, [&](Index i, Index r) {
      log_softmax_dx_row(cotangents[i], saved[r], saved.length, out[i], dx.add);
    });
  });
}

}  // namespace jnorm::cpu
