// BatchNorm over each channel of the batch, in training and in evaluation. Derivation: batch_norm.md.
//
//   [BN.1]  m = mean(x)     s = sqrt(mean((x - m)^2) + eps)     x_hat = (x - m) / s     y = gamma * x_hat + beta
//   [BN.2]  dx = gamma * (dy - mean(dy) - x_hat * mean(dy * x_hat)) / s
//   [BN.3]  dgamma = sum(dy * x_hat)     dbeta = sum(dy)
//   [BN.4]  y_dot = gamma * (x_dot - mean(x_dot) - x_hat * mean(x_hat * x_dot)) / s + gamma_dot * x_hat + beta_dot
//   [BN.9]  in evaluation  x_hat = (x - running_mean) / r,   r = sqrt(running_variance + eps)
//           dx = gamma * dy / r     y_dot = gamma * x_dot / r + gamma_dot * x_hat + beta_dot
//
// with means and sums over the values of the channel that the mask counts.

#include <algorithm>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/channel_norm.hpp>
#include <jnorm/autograd/ops/masked.hpp>

namespace jnorm {

namespace {

Index count_of(const Tensor& mask) {
  const Tensor here = mask.on_host();
  const std::int32_t* const flags = here.data<std::int32_t>();
  return std::count_if(flags, flags + mask.size(), [](std::int32_t flag) { return flag != 0; });
}

struct BatchNorm : ChannelNorm<BatchNorm> {
  static constexpr Description kDescription{
      .name = "batch_norm",
      .inputs = "x gamma beta mask",
      .formula = "y = gamma * (x - mean(x)) / sqrt(variance(x) + eps) + beta, statistics by channel over the batch",
      .derivation = "autograd/ops/batch_norm.md",
      .source = "Ioffe and Szegedy 2015",
      .saved_inputs = 0b1111,
      .saved = "mean rstd"};
  using ChannelNorm::ChannelNorm;

  Var composed(std::span<const Var> inputs) const override {
    const Var& x = inputs[0];
    const ChannelLayout layout = layout_of(x.value());
    const Tensor mask = at.mask < 0 ? Tensor() : inputs[static_cast<std::size_t>(at.mask)].value();
    const Tensor flags = mask.defined() ? counted(mask, layout, DType::float32).to(DType::int32) : Tensor();
    const Index count = mask.defined() ? count_of(mask) : layout.outer * layout.inner;
    const auto select_counted = [&](const Var& v) { return mask.defined() ? select(v, flags) : v; };
    const auto mean_counted = [&](const Var& v) {
      return sum(v, {0, 2}, Keep::yes) * (1.0 / static_cast<double>(std::max<Index>(count, 1)));
    };
    const Var seen = select_counted(reshape(x, shape_of(layout)));
    const Var centred = select_counted(seen - mean_counted(seen));
    const double offset = count > 0 ? eps : 1.0;  // without values, all are 0
    const Var x_hat = centred * rsqrt(mean_counted(square(centred)) + offset);
    return reshape(select_counted(scaled(x_hat, inputs)), x.shape());
  }
};

// The statistics are an input, a constant [2, C]: mean and variance, in float64.
template <bool RowLocal>
struct BatchNormEvaluation : ChannelNorm<BatchNormEvaluation<RowLocal>> {
  static constexpr Description kDescription{
      .name = "batch_norm_evaluation",
      .inputs = "x statistics gamma beta",
      .formula = "y = gamma * (x - running_mean) / sqrt(running_variance + eps) + beta",
      .derivation = "autograd/ops/batch_norm.md",
      .source = "Ioffe and Szegedy 2015",
      .saved_inputs = 0b111,
      .saved = "mean rstd",
      .row_inputs = RowLocal ? 0b1 : 0b0};
  using ChannelNorm<BatchNormEvaluation<RowLocal>>::ChannelNorm;

  // Nothing flows through the statistics: the norm itself, around 0, is its derivative.
  void backward(const Tensor& v, const Tensor& x, const Tensor& gamma, const Tensor& mask, const Tensor& mean,
                const Tensor& rstd, const Destination& dx, const Destination& dgamma, const Destination& dbeta) const {
    ChannelNorm<BatchNormEvaluation<RowLocal>>::backward(v, x, gamma, mask, mean, rstd, {}, dgamma, dbeta);
    ChannelLayout layout = this->layout_of(x);
    if (x.size() > 0) layout.outer *= v.size() / x.size();
    const Tensor zero = zeros(mean.shape(), mean.dtype(), mean.device());
    x.device().kernels().channel_norm_apply(layout, v, gamma, {}, {}, zero, rstd, dx);
  }

  Var composed(std::span<const Var> inputs) const override {
    const Var& x = inputs[0];
    const ChannelLayout layout = this->layout_of(x.value());
    const std::vector<double> values = inputs[1].value().values();
    const auto statistic = [&](Index row) {  // [C, 1]
      const auto first = static_cast<std::size_t>(row * layout.channels);
      const auto own = std::span(values).subspan(first, static_cast<std::size_t>(layout.channels));
      return tensor({layout.channels, 1}, own, x.dtype()).to(x.value().device());
    };
    const Tensor mean = statistic(0), rstd = rsqrt(affine(statistic(1), 1.0, this->eps));
    return reshape(this->scaled((reshape(x, shape_of(layout)) - mean) * rstd, inputs), x.shape());
  }
};

void expect_mask(const Var& x, const Tensor& mask, int axis, const Site& site) {
  expect(mask.dtype() == DType::int32, site, "batch_norm: the mask must be int32, got {}", mask.dtype());
  expect(mask.device() == x.value().device(), site, "batch_norm: x is on {}, but the mask on {}",
         x.value().device().name(), mask.device().name());
  std::vector<Index> sizes(x.shape().begin(), x.shape().end());
  sizes.erase(sizes.end() + axis);
  const Shape expected{std::span<const Index>(sizes)};
  expect(mask.shape() == expected, site,
         "batch_norm: x is {}, so the mask must be {} (without the channel axis), got {}", x.shape(), expected,
         mask.shape());
  const Tensor here = mask.on_host();
  const std::int32_t* const flags = here.data<std::int32_t>();
  for (Index i = 0; i < mask.size(); ++i) {
    expect(flags[i] == 0 || flags[i] == 1, site, "batch_norm: the mask must be 0 or 1, but is {} at position {}",
           flags[i], i);
  }
}

void expect_running_statistic(const char* name, const Var& x, const Tensor& statistic, int axis, const Site& site) {
  constexpr const char* norm = "batch_norm_evaluation";
  expect(statistic.defined(), site, "{}: {} is undefined", norm, name);
  expect(statistic.shape() == Shape{x.dim(axis)}, site, "{}: x {} has {} channels on axis {}, but {} has {}", norm,
         x.shape(), x.dim(axis), axis, name,
         statistic.rank() == 1 ? fmt::format("{}", statistic.dim(0)) : to_string(statistic.shape()));
  expect(statistic.dtype() == DType::float32 || statistic.dtype() == DType::float64, site,
         "{}: {} must be float32 or float64, got {}", norm, name, statistic.dtype());
  expect(statistic.device() == x.value().device(), site, "{}: x is on {}, but {} on {}", norm,
         x.value().device().name(), name, statistic.device().name());
}

}  // namespace

NormalizedBatch batch_norm(const Var& x, const Var& gamma, const Var& beta, const BatchNormOptions& options,
                           SourceLine line) {
  const Site site = site_of("batch_norm", x, line);
  const int axis = expect_channel_norm_arguments("batch_norm", x, gamma, beta, options.eps, options.channel_axis, site);
  const Tensor& value = x.value();
  const Tensor& mask = options.mask;
  if (mask.defined()) expect_mask(x, mask, axis, site);
  const ChannelLayout layout = channel_layout(value.shape(), axis, 0);
  const Index count = mask.defined() ? count_of(mask) : layout.outer * layout.inner;
  expect(count != 1 || layout.channels == 0, site,
         "batch_norm: training needs at least two values a channel, but x {} has one{}, which has no variance; take a "
         "larger batch, or batch_norm_evaluation",
         x.shape(), mask.defined() ? " that the mask counts" : "");
  const auto statistics = [&] { return Tensor::uninitialized({layout.channels}, DType::float64, value.device()); };
  Tensor y = Tensor::uninitialized(value.shape(), value.dtype(), value.device());
  const Tensor saved[] = {statistics(), statistics()}, variance = statistics();
  const auto& [mean, rstd] = saved;
  value.device().kernels().channel_norm(layout, value, value_or_none(gamma), value_or_none(beta), mask, options.eps, y,
                                        mean, variance, rstd);  // [BN.1]
  Tape& tape = x.tape();
  InputList inputs;
  inputs.add(x);
  ChannelInputs at;
  at.gamma = inputs.add(gamma);
  at.beta = inputs.add(beta);
  at.mask = inputs.add(mask.defined() ? tape.constant(mask, "mask", line) : Var());
  const Operation* const operation = tape.keep(BatchNorm(options.eps, at, axis));
  return {.y = tape.record_node(operation, inputs.all(), y, saved, line),
          .mean = mean.to(statistics_dtype(x.dtype())),
          .variance = variance.to(statistics_dtype(x.dtype())),
          .count = count};
}

Var batch_norm_evaluation(const Var& x, const Tensor& running_mean, const Tensor& running_variance, const Var& gamma,
                          const Var& beta, const ChannelNormOptions& options, SourceLine line) {
  const Site site = site_of("batch_norm_evaluation", x, line);
  const int axis =
      expect_channel_norm_arguments("batch_norm_evaluation", x, gamma, beta, options.eps, options.channel_axis, site);
  expect_running_statistic("running_mean", x, running_mean, axis, site);
  expect_running_statistic("running_variance", x, running_variance, axis, site);
  std::vector<double> values = running_mean.values();
  for (const double variance : running_variance.values()) {
    expect(variance >= 0.0, site,
           "batch_norm_evaluation: running_variance must not be negative, but is {} in channel {}", variance,
           static_cast<Index>(values.size()) - x.dim(axis));
    values.push_back(variance);
  }
  const Tensor& value = x.value();
  const ChannelLayout layout = channel_layout(value.shape(), axis, 0);
  Tensor y = Tensor::uninitialized(value.shape(), value.dtype(), value.device());
  const Tensor saved[] = {running_mean.to(DType::float64).clone(),
                          rsqrt(affine(running_variance.to(DType::float64), 1.0, options.eps))};
  const auto& [mean, rstd] = saved;
  value.device().kernels().channel_norm_apply(layout, value, value_or_none(gamma), value_or_none(beta), {}, mean, rstd,
                                              {.tensor = y});  // [BN.9]
  Tape& tape = x.tape();
  InputList inputs;
  inputs.add(x);
  inputs.add(
      tape.constant(tensor({2, layout.channels}, values, DType::float64).to(x.value().device()), "statistics", line));
  ChannelInputs at;
  at.gamma = inputs.add(gamma);
  at.beta = inputs.add(beta);
  const Operation* const operation = axis == -1 ? tape.keep(BatchNormEvaluation<true>(options.eps, at, axis))
                                                : tape.keep(BatchNormEvaluation<false>(options.eps, at, axis));
  return tape.record_node(operation, inputs.all(), y, saved, line);
}

}  // namespace jnorm
