#pragma once

// What BatchNorm and GroupNorm share: how they see x, and the derivative, which is the same. Private.

#include <jnorm/autograd/ops/norm_arguments.hpp>

namespace jnorm {

// x seen as [outer, channels, inner]. The axis counts from the end, so that it stays right beside leading axes.
inline ChannelLayout channel_layout(const Shape& shape, int axis, Index groups) {
  ChannelLayout layout{1, shape[axis], 1, groups};
  const int channel_axis = shape.resolve_axis(axis);
  for (int before = 0; before < channel_axis; ++before) layout.outer *= shape[before];
  for (int after = channel_axis + 1; after < shape.rank(); ++after) layout.inner *= shape[after];
  return layout;
}

inline Shape shape_of(const ChannelLayout& layout) { return {layout.outer, layout.channels, layout.inner}; }

// The inputs' numbers of what may be absent, or -1.
struct ChannelInputs {
  std::int8_t gamma = -1, beta = -1, mask = -1;
};

// x [outer, C, inner], gamma [C], beta [C], mask [outer, inner]. Saves mean and 1/s as float64, one value each a
// statistic; x_hat is recomputed.
template <class Self>
struct ChannelNorm : Fused<Self> {
  double eps;
  ChannelInputs at;
  int axis;      // from the end
  Index groups;  // 0 for BatchNorm
  ChannelNorm(double epsilon, ChannelInputs inputs, int channel_axis, Index group_count = 0)
      : eps(epsilon), at(inputs), axis(channel_axis), groups(group_count) {}
  std::optional<double> setting(std::string_view name) const override { return number_if(name == "eps", eps); }

  ChannelLayout layout_of(const Tensor& x) const { return channel_layout(x.shape(), axis, groups); }

  void vjp(Pullback& back) const override {  // [BN.2] [BN.3] [BN.9] [GN.2] [GN.3]
    self().backward(back.cotangent(), back.input(0), optional_input(back, at.gamma), optional_input(back, at.mask),
                    back.saved(0), back.saved(1), back.into(0), optional_into(back, at.gamma),
                    optional_into(back, at.beta));
  }

  void jvp(Pushforward& push) const override {  // [BN.4] [BN.9] [GN.4]
    const Tensor& x = push.input(0);
    const ChannelLayout layout = layout_of(x);
    const Tensor mask = optional_input(push, at.mask);
    const auto has = [&](int i) { return i >= 0 && push.has(static_cast<std::size_t>(i)); };
    const auto give = [&](const Tensor& y_dot) { push.give(reshape(y_dot, push.shaped(x.shape()))); };
    if (push.has(0)) {
      // What the derivative does to u, it does here to x_dot: the map is symmetric.
      const Tensor& x_dot = push.tangent(0);
      Tensor projected = Tensor::uninitialized(x_dot.shape(), x_dot.dtype(), x_dot.device());
      self().backward(x_dot, x, {}, mask, push.saved(0), push.saved(1), {.tensor = projected}, {}, {});
      give(at.gamma < 0 ? projected : along_channels(projected, optional_input(push, at.gamma), push, layout));
    }
    if (has(at.gamma)) {
      Tensor x_hat = Tensor::uninitialized(shape_of(layout), x.dtype(), x.device());
      x.device().kernels().channel_norm_apply(layout, x, {}, {}, mask, push.saved(0), push.saved(1), {.tensor = x_hat});
      give(multiply(spread(push.tangent(static_cast<std::size_t>(at.gamma)), push, layout), x_hat));
    }
    if (has(at.beta)) {
      const Tensor beta_dot = spread(push.tangent(static_cast<std::size_t>(at.beta)), push, layout);
      give(mask.defined() ? multiply(beta_dot, counted(mask, layout, x.dtype())) : beta_dot);
    }
  }

  // The gradients for the cotangent v: v and dx have K copies of x's elements.
  void backward(const Tensor& v, const Tensor& x, const Tensor& gamma, const Tensor& mask, const Tensor& mean,
                const Tensor& rstd, const Destination& dx, const Destination& dgamma, const Destination& dbeta) const {
    x.device().kernels().channel_norm_backward(layout_of(x), v, x, gamma, mask, mean, rstd, dx, dgamma, dbeta);
  }

 protected:
  // y = gamma x_hat + beta over [outer, C, inner], as primitives.
  Var scaled(const Var& x_hat, std::span<const Var> inputs) const {
    const auto parameter = [&](int i) { return reshape(inputs[static_cast<std::size_t>(i)], {x_hat.dim(1), 1}); };
    Var y = x_hat;
    if (at.gamma >= 0) y = y * parameter(at.gamma);
    if (at.beta >= 0) y = y + parameter(at.beta);
    return y;
  }

  // 1 where a mask counts, else 0: [outer, 1, inner] over all channels.
  static Tensor counted(const Tensor& mask, const ChannelLayout& layout, DType dtype) {
    const Tensor flags = reshape(mask.to(dtype), {layout.outer, 1, layout.inner});
    return broadcast_to(flags, shape_of(layout));
  }

 private:
  const Self& self() const { return static_cast<const Self&>(*this); }

  // A tangent of gamma or beta, [C] or [K, C], beside every element: [outer, C, inner] or [K, outer, C, inner].
  static Tensor spread(const Tensor& tangent, const Pushforward& push, const ChannelLayout& layout) {
    return broadcast_to(reshape(tangent, push.shaped({1, layout.channels, 1})), push.shaped(shape_of(layout)));
  }

  static Tensor along_channels(const Tensor& v, const Tensor& gamma, const Pushforward& push,
                               const ChannelLayout& layout) {
    const Tensor factors = broadcast_to(reshape(gamma, {layout.channels, 1}), {layout.channels, layout.inner});
    return multiply(reshape(v, push.shaped(shape_of(layout))), factors);
  }
};

// Checks what a norm over channels is given, before anything is computed. Returns the channel axis, from the end.
inline int expect_channel_norm_arguments(const char* norm, const Var& x, const Var& gamma, const Var& beta, double eps,
                                         int channel_axis, const Site& site) {
  expect_norm_arguments(norm, x, eps, site);
  expect(channel_axis >= -x.rank() && channel_axis < x.rank(), site, "{}: channel axis {} is out of range for shape {}",
         norm, channel_axis, x.shape());
  const auto expect_parameter = [&](const char* name, const Var& parameter) {
    if (!parameter.defined()) return;
    expect_same_kind(norm, x, parameter, site);
    expect(parameter.shape() == Shape{x.dim(channel_axis)}, site, "{}: x {} has {} channels on axis {}, but {} has {}",
           norm, x.shape(), x.dim(channel_axis), channel_axis, name,
           parameter.rank() == 1 ? fmt::format("{}", parameter.dim(0)) : to_string(parameter.shape()));
  };
  expect_parameter("gamma", gamma);
  expect_parameter("beta", beta);
  return x.shape().resolve_axis(channel_axis) - x.rank();
}

}  // namespace jnorm
