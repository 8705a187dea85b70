// LayerNorm over the last axis. Derivation: layer_norm.md.
//
//   [LN.1]  s = sqrt(variance(x) + eps)     x_hat = (x - mean(x)) / s     y = gamma * x_hat + beta
//   [LN.2]  dx = (u - mean(u) - x_hat * mean(u * x_hat)) / s,   u = gamma * dy
//   [LN.3]  dgamma = sum over rows of dy * x_hat     dbeta = sum over rows of dy
//   [LN.4]  y_dot = gamma * (x_dot - mean(x_dot) - x_hat * mean(x_hat * x_dot)) / s + gamma_dot * x_hat + beta_dot

#include <cmath>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/norm_arguments.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

struct LayerNorm : Fused<LayerNorm> {
  static constexpr Description kDescription{.name = "layer_norm",
                                            .inputs = "x gamma beta",
                                            .formula = "y = gamma * (x - mean(x)) / sqrt(variance(x) + eps) + beta",
                                            .derivation = "autograd/ops/layer_norm.md",
                                            .source = "Ba et al. 2016",
                                            .saved_inputs = 0b11,
                                            .saved = "mean rstd",
                                            .row_inputs = 0b1,
                                            .row_saved = 0b11};
  double eps;
  std::int8_t gamma;  // the input's number, or -1 if there is none
  std::int8_t beta;
  LayerNorm(double epsilon, bool has_gamma, bool has_beta)
      : eps(epsilon), gamma(has_gamma ? 1 : -1), beta(static_cast<std::int8_t>(has_beta ? (has_gamma ? 2 : 1) : -1)) {}
  std::optional<double> setting(std::string_view name) const override { return number_if(name == "eps", eps); }

  // x [R, H], gamma [H], beta [H]. Saves mean and 1/s, two values a row; x_hat is recomputed.
  void vjp(Pullback& back) const override {
    back.output().device().kernels().layer_norm_backward(
        back.cotangent(), back.input(0), optional_input(back, gamma), back.saved(0), back.saved(1), back.into(0),
        optional_into(back, gamma), optional_into(back, beta));  // [LN.2] [LN.3]
  }

  void jvp(Pushforward& push) const override {  // [LN.4]
    const Tensor& x = push.input(0);
    const Tensor& mean = push.saved(0);
    const Tensor& rstd = push.saved(1);
    if (push.has(0)) {
      // What [LN.2] does to u, it does here to x_dot: the map is symmetric.
      const Tensor& x_dot = push.tangent(0);
      Tensor projected = Tensor::uninitialized(x_dot.shape(), x_dot.dtype(), x_dot.device());
      x.device().kernels().layer_norm_backward(x_dot, x, {}, mean, rstd, {.tensor = projected}, {}, {});
      push.give(gamma < 0 ? projected : multiply(projected, push.input(1)));
    }
    const auto has = [&](int i) { return i >= 0 && push.has(static_cast<std::size_t>(i)); };
    if (has(gamma)) {
      Tensor x_hat = Tensor::uninitialized(x.shape(), x.dtype(), x.device());
      x.device().kernels().layer_norm(x, {}, {}, eps, x_hat, mean.clone(), rstd.clone());
      push.give(multiply(along_rows(push, push.tangent(static_cast<std::size_t>(gamma))), x_hat));
    }
    if (has(beta)) push.give(along_rows(push, push.tangent(static_cast<std::size_t>(beta))));
  }

  Var composed(std::span<const Var> inputs) const override {
    const Var& x = inputs[0];
    const Var centred = x - jnorm::mean(x, {-1}, Keep::yes);
    Var y = centred * rsqrt(jnorm::mean(square(centred), {-1}, Keep::yes) + eps);
    if (gamma >= 0) y = y * inputs[static_cast<std::size_t>(gamma)];
    if (beta >= 0) y = y + inputs[static_cast<std::size_t>(beta)];
    return y;
  }
};

}  // namespace

Var layer_norm(const Var& x, const Var& gamma, const Var& beta, double eps, SourceLine line) {
  const Site site = site_of("layer_norm", x, line);
  expect_norm_arguments("layer_norm", x, eps, site);
  if (gamma.defined()) expect_norm_parameter("layer_norm", "gamma", x, gamma, site);
  if (beta.defined()) expect_norm_parameter("layer_norm", "beta", x, beta, site);
  const Tensor& value = x.value();
  Tensor y = Tensor::uninitialized(value.shape(), value.dtype(), value.device());
  Tensor mean = Tensor::uninitialized({value.rows()}, statistics_dtype(value.dtype()), value.device());
  Tensor rstd = Tensor::uninitialized({value.rows()}, statistics_dtype(value.dtype()), value.device());
  value.device().kernels().layer_norm(value, gamma.defined() ? gamma.value() : Tensor(),
                                      beta.defined() ? beta.value() : Tensor(), eps, y, mean, rstd);  // [LN.1]
  const LayerNorm operation(eps, gamma.defined(), beta.defined());
  Tape& tape = x.tape();
  if (gamma.defined() && beta.defined()) return tape.record(operation, {x, gamma, beta}, y, {mean, rstd}, line);
  if (gamma.defined()) return tape.record(operation, {x, gamma}, y, {mean, rstd}, line);
  if (beta.defined()) return tape.record(operation, {x, beta}, y, {mean, rstd}, line);
  return tape.record(operation, {x}, y, {mean, rstd}, line);
}

}  // namespace jnorm
