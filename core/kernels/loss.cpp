// Cross-entropy of rows of logits, through logsumexp: log(softmax(x)) is -inf where exp underflows. With label
// smoothing s, class weights w (all 1 if there are none) and their sum W:
//
//   [CE.1]  loss_r = (1 - s) w[target] (lse - x[target]) + (s / V) sum_c w[c] (lse - x[c]),  lse = max + log sum exp(x
//   - max) [CE.2]  dx = dloss_r (((1 - s) w[target] + s W / V) p - (1 - s) w[target] onehot(target) - (s / V) w)
//
// where p = exp(x - lse) / sum exp(x - lse). That sum would be 1 if lse weren't rounded; at logits of 10,000 in float32
// it misses 1 by 5e-4. A mean is the sum of loss_r divided by the sum of w[target].
//
// Rows whose target is ignored count nowhere and have zero gradients, whatever their logits hold.

#include <cmath>
#include <numeric>

#include <jnorm/core/dtype.hpp>
#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/kernels/rows.hpp>

namespace jnorm::cpu {

namespace {

// w, and the two shares that smoothing gives: to the target, and to every class.
template <class T>
class ClassWeights {
 public:
  ClassWeights(double label_smoothing, const Tensor& weights, Index classes)
      : data_(weights.defined() ? weights.data<T>() : nullptr),
        target_share_(1.0 - label_smoothing),
        share_(classes == 0 ? 0.0 : label_smoothing / static_cast<double>(classes)),
        total_(data_ == nullptr ? static_cast<double>(classes) : std::accumulate(data_, data_ + classes, 0.0)) {}

  double of(std::int32_t target) const { return data_ == nullptr ? 1.0 : double{data_[target]}; }
  template <class Place>
  Batch<T> load(const Place& at) const {
    return data_ == nullptr ? Batch<T>(T(1)) : at.load(data_);
  }
  double total() const { return total_; }
  double target_share() const { return target_share_; }
  double share() const { return share_; }

 private:
  const T* data_;
  double target_share_, share_, total_;
};

struct RowLoss {
  double lse, loss;
};

template <class T>
RowLoss row_loss(const T* x, Index length, std::int32_t target, bool counts, const ClassWeights<T>& weights) {
  const T largest = row_max(x, length);
  const Batch<T> shift(largest);
  const auto sums = row_sums<1, T>(length, [=](auto at) { return Batches<T, 1>{xsimd::exp(at.load(x) - shift)}; });
  const double log_sum = std::log(static_cast<double>(sums[0]));
  const double lse = largest + log_sum;
  if (!counts) return {lse, 0.0};
  double loss = weights.target_share() * weights.of(target) * ((double{largest} - double{x[target]}) + log_sum);
  if (weights.share() > 0.0) {
    const auto gaps =
        row_sums<1, T>(length, [&](auto at) { return Batches<T, 1>{weights.load(at) * (shift - at.load(x))}; });
    loss += weights.share() * (static_cast<double>(gaps[0]) + weights.total() * log_sum);
  }
  return {lse, loss};  // [CE.1]
}

template <class T>
void row_gradient(const T* x, T lse, Index length, std::int32_t target, double dloss, const ClassWeights<T>& weights,
                  T* dx, bool add) {
  const Batch<T> shift(lse);
  const auto sums = row_sums<1, T>(length, [=](auto at) { return Batches<T, 1>{xsimd::exp(at.load(x) - shift)}; });
  const double target_weight = weights.target_share() * weights.of(target);
  const Batch<T> scale(static_cast<T>(dloss * (target_weight + weights.share() * weights.total())) / sums[0]);
  if (weights.share() > 0.0) {
    const Batch<T> share(static_cast<T>(dloss * weights.share()));
    for_each_batch<T>(0, length, [&](auto at) {
      put(at, dx, xsimd::exp(at.load(x) - shift) * scale - share * weights.load(at), add);
    });
  } else {
    for_each_batch<T>(0, length, [=](auto at) { put(at, dx, xsimd::exp(at.load(x) - shift) * scale, add); });
  }
  dx[target] -= static_cast<T>(dloss * target_weight);  // [CE.2]
}

// The sum of w[target] over the rows that count.
template <class T>
double counted_weight(const Tensor& targets, std::int32_t ignored, const ClassWeights<T>& weights) {
  const auto* const target = targets.data<std::int32_t>();
  double sum = 0.0;
  for (Index r = 0; r < targets.size(); ++r) sum += target[r] == ignored ? 0.0 : weights.of(target[r]);
  return sum;
}

}  // namespace

void cross_entropy(const CrossEntropySettings& settings, const Tensor& logits, const Tensor& targets,
                   const Tensor& weights, const Tensor& loss, const Tensor& lse) {
  dispatch_wide("cross_entropy", logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Rows in = rows_of<T>(logits);
    const ClassWeights<T> classes(settings.label_smoothing, weights, in.length);
    const auto* const target = targets.data<std::int32_t>();
    T* const lses = lse.output_data<T>();
    const Tensor row_losses = Tensor::uninitialized({logits.rows()}, DType::float64);
    double* const losses = row_losses.output_data<double>();
    for_each_row(logits, [&](Index r) {
      const RowLoss row = row_loss(in[r], in.length, target[r], target[r] != settings.ignore_index, classes);
      lses[r] = static_cast<T>(row.lse);
      losses[r] = row.loss;
    });
    T* const out = loss.output_data<T>();
    if (settings.reduction == Reduction::none) {
      std::transform(losses, losses + logits.rows(), out, [](double row) { return static_cast<T>(row); });
      return;
    }
    const double sum = std::accumulate(losses, losses + logits.rows(), 0.0);
    const double counted =
        settings.reduction == Reduction::mean ? counted_weight(targets, settings.ignore_index, classes) : 1.0;
    out[0] = counted == 0.0 ? T(0) : static_cast<T>(sum / counted);
  });
}

void cross_entropy_dx(const CrossEntropySettings& settings, const Tensor& dloss, const Tensor& logits,
                      const Tensor& targets, const Tensor& weights, const Tensor& lse, const Destination& dlogits) {
  if (!dlogits.wanted() || dlogits.tensor.size() == 0) return;
  dispatch_wide("cross_entropy_dx", logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Rows in = rows_of<T>(logits);
    const Rows out = output_rows<T>(dlogits.tensor);
    const ClassWeights<T> classes(settings.label_smoothing, weights, in.length);
    const T* const dlosses = dloss.data<T>();
    const T* const lses = lse.data<T>();
    const auto* const target = targets.data<std::int32_t>();
    const bool one_a_row = settings.reduction == Reduction::none;
    const double counted =
        settings.reduction == Reduction::mean ? counted_weight(targets, settings.ignore_index, classes) : 1.0;
    const Index rows = logits.rows();
    for_each_row_of_copies(one_a_row ? dloss.size() / rows : dloss.size(), logits, [&](Index i, Index r) {
      if (target[r] == settings.ignore_index || counted == 0.0) {
        if (!dlogits.add) std::fill_n(out[i], out.length, T(0));
        return;
      }
      const double row_dloss = static_cast<double>(dlosses[one_a_row ? i : i / rows]) / counted;
      row_gradient(in[r], lses[r], in.length, target[r], row_dloss, classes, out[i], dlogits.add);
    });
  });
}

}  // namespace jnorm::cpu
