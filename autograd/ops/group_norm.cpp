// GroupNorm over groups of channels. Derivation: group_norm.md.
//
//   [GN.1]  c = mean(x)     s = sqrt(mean((x - c)^2) + eps)     x_hat = (x - c) / s     y = gamma * x_hat + beta
//   [GN.2]  dx = (u - mean(u) - x_hat * mean(u * x_hat)) / s,   u = gamma * dy
//   [GN.3]  dgamma = sum of dy * x_hat     dbeta = sum of dy,   each over all of the channel
//   [GN.4]  y_dot = gamma * (x_dot - mean(x_dot) - x_hat * mean(x_hat * x_dot)) / s + gamma_dot * x_hat + beta_dot
//
// with means over one group of one outer index.

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/channel_norm.hpp>

namespace jnorm {

namespace {

constexpr std::uint32_t if_rows(bool row_local, std::uint32_t bits) { return row_local ? bits : 0; }

// RowLocal: the channel axis is the last, so that no group reaches beyond a row.
template <bool RowLocal>
struct GroupNorm : ChannelNorm<GroupNorm<RowLocal>> {
  static constexpr Description kDescription{
      .name = "group_norm",
      .inputs = "x gamma beta",
      .formula = "y = gamma * (x - mean(x)) / sqrt(variance(x) + eps) + beta, statistics by group of channels",
      .derivation = "autograd/ops/group_norm.md",
      .source = "Wu and He 2018",
      .saved_inputs = 0b11,
      .saved = "mean rstd",
      .row_inputs = if_rows(RowLocal, 0b1),
      .row_saved = if_rows(RowLocal, 0b11)};
  using ChannelNorm<GroupNorm<RowLocal>>::ChannelNorm;

  Var composed(std::span<const Var> inputs) const override {
    const Var& x = inputs[0];
    const ChannelLayout layout = this->layout_of(x.value());
    const Index group_size = layout.channels / layout.groups * layout.inner;
    const Var grouped = reshape(x, {layout.outer, layout.groups, group_size});
    const Var centred = grouped - mean(grouped, {-1}, Keep::yes);
    const Var x_hat = centred * rsqrt(mean(square(centred), {-1}, Keep::yes) + this->eps);
    return reshape(this->scaled(reshape(x_hat, shape_of(layout)), inputs), x.shape());
  }
};

}  // namespace

Var group_norm(const Var& x, Index groups, const Var& gamma, const Var& beta, const ChannelNormOptions& options,
               SourceLine line) {
  const Site site = site_of("group_norm", x, line);
  const int axis = expect_channel_norm_arguments("group_norm", x, gamma, beta, options.eps, options.channel_axis, site);
  expect(groups > 0, site, "group_norm: groups must be positive, but is {}", groups);
  expect(x.dim(axis) % groups == 0, site, "group_norm: {} groups don't divide the {} channels of x {}", groups,
         x.dim(axis), x.shape());
  const Tensor& value = x.value();
  const ChannelLayout layout = channel_layout(value.shape(), axis, groups);
  const auto statistics = [&] { return Tensor::uninitialized({layout.outer, groups}, DType::float64, value.device()); };
  Tensor y = Tensor::uninitialized(value.shape(), value.dtype(), value.device());
  const Tensor saved[] = {statistics(), statistics()};
  const auto& [mean, rstd] = saved;
  value.device().kernels().channel_norm(layout, value, value_or_none(gamma), value_or_none(beta), {}, options.eps, y,
                                        mean, {}, rstd);  // [GN.1]
  InputList inputs;
  inputs.add(x);
  ChannelInputs at;
  at.gamma = inputs.add(gamma);
  at.beta = inputs.add(beta);
  Tape& tape = x.tape();
  const Operation* const operation = axis == -1 ? tape.keep(GroupNorm<true>(options.eps, at, axis, groups))
                                                : tape.keep(GroupNorm<false>(options.eps, at, axis, groups));
  return tape.record_node(operation, inputs.all(), y, saved, line);
}

}  // namespace jnorm
