// Mean cross-entropy of rows of logits, through logsumexp: log(softmax(x)) is -inf where exp underflows.
//
//   [CE.1]  loss = mean over rows of (max - x[target]) + log sum exp(x - max)
//   [CE.2]  dlogits = (exp(x - lse) / sum exp(x - lse) - onehot(target)) dloss / rows
//
// The sum in [CE.2] would be 1 if lse weren't rounded; at logits of 10,000 in float32 it misses 1 by 5e-4.
// Rows whose target is kIgnoreIndex count nowhere and have zero gradients, whatever their logits hold.

#include <cmath>
#include <numeric>

#include <jnorm/core/dtype.hpp>
#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/kernels/rows.hpp>

namespace jnorm::cpu {

namespace {

struct RowLoss {
  double lse, loss;
};

template <class T>
RowLoss row_loss(const T* x, Index length, std::int32_t target) {
  const T largest = row_max(x, length);
  const auto sums =
      row_sums<1, T>(length, [=](auto at) { return Batches<T, 1>{xsimd::exp(at.load(x) - Batch<T>(largest))}; });
  const double log_sum = std::log(static_cast<double>(sums[0]));
  const double loss = target == kIgnoreIndex ? 0.0 : (double{largest} - double{x[target]}) + log_sum;  // [CE.1]
  return {largest + log_sum, loss};
}

template <class T>
void row_gradient(const T* x, T lse, Index length, std::int32_t target, T dloss, T* dx, bool add) {
  const Batch<T> shift(lse);
  const auto sums = row_sums<1, T>(length, [=](auto at) { return Batches<T, 1>{xsimd::exp(at.load(x) - shift)}; });
  const Batch<T> scale(dloss / sums[0]);
  for_each_batch<T>(0, length, [=](auto at) { put(at, dx, xsimd::exp(at.load(x) - shift) * scale, add); });
  dx[target] -= dloss;  // [CE.2]
}

Index count_valid(const Tensor& targets) {
  const std::int32_t* const target = targets.data<std::int32_t>();
  return targets.size() - std::count(target, target + targets.size(), kIgnoreIndex);
}

}  // namespace

void cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& loss, const Tensor& lse) {
  dispatch_wide("cross_entropy", logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Rows in = rows_of<T>(logits);
    const std::int32_t* const target = targets.data<std::int32_t>();
    T* const lses = lse.output_data<T>();
    const Tensor row_losses = Tensor::uninitialized({logits.rows()}, DType::float64);
    double* const losses = row_losses.output_data<double>();
    for_each_row(logits, [&](Index r) {
      const RowLoss row = row_loss(in[r], in.length, target[r]);
      lses[r] = static_cast<T>(row.lse);
      losses[r] = row.loss;
    });
    const double sum = std::accumulate(losses, losses + logits.rows(), 0.0);
    const Index valid = count_valid(targets);
    loss.output_data<T>()[0] = valid == 0 ? T(0) : static_cast<T>(sum / static_cast<double>(valid));
  });
}

void cross_entropy_dx(const Tensor& dloss, const Tensor& logits, const Tensor& targets, const Tensor& lse,
                      const Destination& dlogits) {
  if (!dlogits.wanted()) return;
  dispatch_wide("cross_entropy_dx", logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Rows in = rows_of<T>(logits);
    const Rows out = output_rows<T>(dlogits.tensor);
    const T* const dlosses = dloss.data<T>();
    const T* const lses = lse.data<T>();
    const std::int32_t* const target = targets.data<std::int32_t>();
    const Index rows = logits.rows(), valid = count_valid(targets);
    for_each_row_of_copies(dloss.size(), logits, [&](Index i, Index r) {
      if (target[r] == kIgnoreIndex) {
        if (!dlogits.add) std::fill_n(out[i], out.length, T(0));
        return;
      }
      const T row_dloss = static_cast<T>(dlosses[i / rows] / static_cast<double>(valid));
      row_gradient(in[r], lses[r], in.length, target[r], row_dloss, out[i], dlogits.add);
    });
  });
}

}  // namespace jnorm::cpu
