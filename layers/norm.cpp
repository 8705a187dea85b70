#include <jnorm/layers/norm.hpp>

#include <cmath>

#include <jnorm/autograd/site.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/layers/names.hpp>

namespace jnorm {

namespace {

constexpr Named<NormKind> kNorms[] = {
    {"layer", NormKind::layer}, {"rms", NormKind::rms}, {"batch", NormKind::batch}, {"group", NormKind::group},
    {"scale", NormKind::scale}, {"dyt", NormKind::dyt}, {"none", NormKind::none}};

Index checked_dim(const char* norm, Index dim) {
  expect(dim > 0, "{}: expected a positive width, got {}", norm, dim);
  return dim;
}

Shape checked_shape(const Shape& normalized) {
  expect(normalized.rank() > 0 && normalized.size() > 0,
         "layer_norm: expected positive sizes of the axes to normalize over, got {}", normalized);
  return normalized;
}

double checked_eps(const char* norm, double eps) {
  expect(eps >= 0.0 && std::isfinite(eps), "{}: eps must be finite and not negative, but is {}", norm, eps);
  return eps;
}

Index checked_groups(Index dim, Index groups) {
  checked_dim("group_norm", dim);
  expect(groups > 0 && dim % groups == 0, "group_norm: {} groups don't divide the width {}", groups, dim);
  return groups;
}

Index measured_features(Index dim, double fraction) {
  checked_dim("rms_norm", dim);
  expect(fraction > 0.0 && fraction <= 1.0, "rms_norm: expected a fraction of the features in (0, 1], got {}",
         fraction);
  return static_cast<Index>(std::ceil(fraction * static_cast<double>(dim)));
}

double checked_momentum(double momentum) {
  expect(momentum >= 0.0 && momentum <= 1.0, "batch_norm: the momentum must lie in [0, 1], but is {}", momentum);
  return momentum;
}

// The operations know the width by gamma alone, which a norm may lack or have as one number.
void expect_last_axes(const char* norm, const Var& x, const Shape& normalized, SourceLine line) {
  const Site site = site_of(norm, x, line);
  const int axes = normalized.rank();
  bool fits = x.rank() >= axes;
  for (int axis = 1; fits && axis <= axes; ++axis) fits = x.dim(-axis) == normalized[-axis];
  expect(fits, site, "{}: expected x to end with the axes {} to normalize over, got {}", norm, normalized, x.shape());
}

// gamma or beta as it goes into an operation: undefined where the norm has none.
Var optional_parameter(const Var& x, Parameter* parameter, SourceLine line) {
  return parameter == nullptr ? Var() : parameter_for(x, *parameter, line);
}

}  // namespace

std::string to_string(NormKind kind) { return name_of(kNorms, kind); }

NormKind norm_kind_from_string(std::string_view name) { return value_named("norm", kNorms, name); }

const std::vector<NormKind>& norm_kinds() {
  static const std::vector<NormKind> all = values_of(kNorms);
  return all;
}

LayerNorm::LayerNorm(const Shape& normalized, const NormOptions& options)
    : normalized_(checked_shape(normalized)), eps_(checked_eps("layer_norm", options.eps)) {
  if (!options.affine) return;
  gamma_ = &add_parameter("gamma", ones(normalized));
  beta_ = &add_parameter("beta", zeros(normalized));
}

Var LayerNorm::forward(const Var& x, const Pass& /*pass*/, SourceLine line) {
  expect_last_axes("layer_norm", x, normalized_, line);
  const Var gamma = optional_parameter(x, gamma_, line);
  const Var beta = optional_parameter(x, beta_, line);
  const int axes = normalized_.rank();
  if (axes == 1) return layer_norm(x, gamma, beta, eps_, line);

  const auto joined = [&](const Var& parameter) { return parameter.defined() ? flatten(parameter) : parameter; };
  // [..., normalized] -> [..., H] and back
  return reshape(layer_norm(flatten(x, -axes, -1, line), joined(gamma), joined(beta), eps_, line), x.shape(), line);
}

RmsNorm::RmsNorm(Index dim, const NormOptions& options, double fraction)
    : dim_(checked_dim("rms_norm", dim)),
      measured_(jnorm::measured_features(dim, fraction)),
      eps_(checked_eps("rms_norm", options.eps)) {
  if (options.affine) gamma_ = &add_parameter("gamma", ones({dim}));
}

Var RmsNorm::forward(const Var& x, const Pass& /*pass*/, SourceLine line) {
  expect_last_axes("rms_norm", x, {dim_}, line);
  const Var gamma = optional_parameter(x, gamma_, line);
  if (measured_ == dim_) return rms_norm(x, gamma, eps_, line);
  // r of the first features alone, which divides all of them; like every statistic it is at least float32
  const Var wide = jnorm::to(x, statistics_dtype(x.dtype()), line);
  const Var measured = slice(wide, -1, {.stop = measured_}, line);
  const Var rstd = rsqrt(mean(square(measured, line), {-1}, Keep::yes, line) + eps_, line);  // [..., 1]
  const Var y = jnorm::to(wide * rstd, x.dtype(), line);
  return gamma.defined() ? y * gamma : y;
}

BatchNorm::BatchNorm(Index dim, const NormOptions& options, double momentum)
    : eps_(checked_eps("batch_norm", options.eps)),
      momentum_(checked_momentum(momentum)),
      running_mean_(add_buffer("running_mean", zeros({checked_dim("batch_norm", dim)}))),
      running_variance_(add_buffer("running_variance", ones({dim}))) {
  if (!options.affine) return;
  gamma_ = &add_parameter("gamma", ones({dim}));
  beta_ = &add_parameter("beta", zeros({dim}));
}

Var BatchNorm::forward(const Var& x, const Pass& pass, SourceLine line) {
  expect_last_axes("batch_norm", x, running_mean_.value.shape(), line);
  const Var gamma = optional_parameter(x, gamma_, line);
  const Var beta = optional_parameter(x, beta_, line);
  if (!training()) {
    return batch_norm_evaluation(x, running_mean_.value, running_variance_.value, gamma, beta, {.eps = eps_}, line);
  }
  const NormalizedBatch batch = batch_norm(x, gamma, beta, {.eps = eps_, .mask = pass.mask}, line);
  if (!x.tape().measuring()) update(batch);
  return batch.y;
}

void BatchNorm::update(const NormalizedBatch& batch) {
  if (batch.count == 0) return;
  const auto n = static_cast<double>(batch.count);
  const auto blend = [&](Buffer& running, const Tensor& seen, double correction) {
    running.value = jnorm::add(affine(running.value, 1.0 - momentum_, 0.0),
                               affine(seen.to(running.value.dtype()), momentum_ * correction, 0.0));
  };
  blend(running_mean_, batch.mean, 1.0);
  blend(running_variance_, batch.variance, n / (n - 1.0));  // [BN.8]
}

GroupNorm::GroupNorm(Index dim, Index groups, const NormOptions& options)
    : dim_(dim), groups_(checked_groups(dim, groups)), eps_(checked_eps("group_norm", options.eps)) {
  if (!options.affine) return;
  gamma_ = &add_parameter("gamma", ones({dim}));
  beta_ = &add_parameter("beta", zeros({dim}));
}

Var GroupNorm::forward(const Var& x, const Pass& /*pass*/, SourceLine line) {
  expect_last_axes("group_norm", x, {dim_}, line);
  const Var gamma = optional_parameter(x, gamma_, line);
  const Var beta = optional_parameter(x, beta_, line);
  // Every position is a sample: groups that went over the sequence would show a token the later ones.
  return group_norm(x, groups_, gamma, beta, {.eps = eps_, .channel_axis = -1}, line);
}

ScaleNorm::ScaleNorm(Index dim, const NormOptions& options)
    : dim_(checked_dim("scale_norm", dim)),
      start_(std::sqrt(static_cast<double>(dim))),
      eps_(checked_eps("scale_norm", options.eps)) {
  if (options.affine) g_ = &add_parameter("g", full({1}, start_));
}

Var ScaleNorm::forward(const Var& x, const Pass& /*pass*/, SourceLine line) {
  expect_last_axes("scale_norm", x, {dim_}, line);
  if (g_ == nullptr) return affine(scale_norm(x, {}, eps_, line), start_, 0.0, line);
  return scale_norm(x, parameter_for(x, *g_, line), eps_, line);
}

DynamicTanh::DynamicTanh(Index dim, bool affine)
    : dim_(checked_dim("dynamic_tanh", dim)), alpha_(add_parameter("alpha", full({1}, kStartingAlpha))) {
  if (!affine) return;
  gamma_ = &add_parameter("gamma", ones({dim}));
  beta_ = &add_parameter("beta", zeros({dim}));
}

Var DynamicTanh::forward(const Var& x, const Pass& /*pass*/, SourceLine line) {
  expect_last_axes("dynamic_tanh", x, {dim_}, line);
  const Var gamma = optional_parameter(x, gamma_, line);
  const Var beta = optional_parameter(x, beta_, line);
  return dynamic_tanh(x, parameter_for(x, alpha_, line), gamma, beta, line);
}

std::unique_ptr<Layer> make_norm(const NormConfig& config) {
  const NormOptions options{.eps = config.eps, .affine = config.affine};
  switch (config.kind) {
    case NormKind::layer: return std::make_unique<LayerNorm>(config.dim, options);
    case NormKind::rms: return std::make_unique<RmsNorm>(config.dim, options, config.fraction);
    case NormKind::batch: return std::make_unique<BatchNorm>(config.dim, options, config.momentum);
    case NormKind::group: return std::make_unique<GroupNorm>(config.dim, config.groups, options);
    case NormKind::scale: return std::make_unique<ScaleNorm>(config.dim, options);
    case NormKind::dyt: return std::make_unique<DynamicTanh>(config.dim, config.affine);
    case NormKind::none: break;
  }
  return std::make_unique<Identity>();
}

}  // namespace jnorm
