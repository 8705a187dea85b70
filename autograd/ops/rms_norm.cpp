// RMSNorm over the last axis. Derivation: rms_norm.md.
//
//   [RMS.1]  r = sqrt(mean(x^2) + eps)      x_hat = x / r      y = gamma * x_hat
//   [RMS.2]  dx = (u - x_hat * mean(u * x_hat)) / r,   u = gamma * dy
//   [RMS.3]  dgamma = sum over rows of dy * x_hat
//   [RMS.4]  y_dot = gamma * (x_dot - x_hat * mean(x_hat * x_dot)) / r + gamma_dot * x_hat

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/norm_arguments.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

struct RmsNorm : Fused<RmsNorm> {
  static constexpr Description kDescription{.name = "rms_norm",
                                            .inputs = "x gamma",
                                            .formula = "y = gamma * x / sqrt(mean(x^2) + eps)",
                                            .derivation = "autograd/ops/rms_norm.md",
                                            .source = "Zhang and Sennrich 2019",
                                            .saved_inputs = 0b11,
                                            .saved = "rstd",
                                            .row_inputs = 0b1,
                                            .row_saved = 0b1};
  double eps;
  explicit RmsNorm(double epsilon) : eps(epsilon) {}
  std::optional<double> setting(std::string_view name) const override { return number_if(name == "eps", eps); }

  // x [R, H], gamma [H]. Saves 1/r, one value a row; x_hat is recomputed.
  void vjp(Pullback& back) const override {
    const Tensor gamma = back.has_input(1) ? back.input(1) : Tensor();
    back.output().device().kernels().rms_norm_backward(back.cotangent(), back.input(0), gamma, back.saved(0),
                                                       back.into(0), back.into(1));  // [RMS.2] [RMS.3]
  }

  void jvp(Pushforward& push) const override {  // [RMS.4]
    const Tensor& x = push.input(0);
    const Tensor& rstd = push.saved(0);
    if (push.has(0)) {
      // What [RMS.2] does to u, it does here to x_dot: the map is symmetric.
      const Tensor& x_dot = push.tangent(0);
      Tensor projected = Tensor::uninitialized(x_dot.shape(), x_dot.dtype(), x_dot.device());
      x.device().kernels().rms_norm_backward(x_dot, x, {}, rstd, {.tensor = projected}, {});
      push.give(push.has_input(1) ? multiply(projected, push.input(1)) : projected);
    }
    if (push.has(1)) {
      Tensor x_hat = Tensor::uninitialized(x.shape(), x.dtype(), x.device());
      x.device().kernels().rms_norm(x, {}, eps, x_hat, rstd.clone());
      push.give(multiply(along_rows(push, push.tangent(1)), x_hat));
    }
  }

  Var composed(std::span<const Var> inputs) const override {
    const Var& x = inputs[0];
    const Var x_hat = x * rsqrt(mean(square(x), {-1}, Keep::yes) + eps);
    return inputs.size() > 1 ? x_hat * inputs[1] : x_hat;
  }
};

}  // namespace

Var rms_norm(const Var& x, const Var& gamma, double eps, SourceLine line) {
  const Site site = site_of("rms_norm", x, line);
  expect_norm_arguments("rms_norm", x, eps, site);
  if (gamma.defined()) expect_norm_parameter("rms_norm", "gamma", x, gamma, site);
  const Tensor& value = x.value();
  Tensor y = Tensor::uninitialized(value.shape(), value.dtype(), value.device());
  Tensor rstd = Tensor::uninitialized({value.rows()}, statistics_dtype(value.dtype()), value.device());
  value.device().kernels().rms_norm(value, gamma.defined() ? gamma.value() : Tensor(), eps, y, rstd);  // [RMS.1]
  if (!gamma.defined()) return x.tape().record(RmsNorm(eps), {x}, y, {rstd}, line);
  return x.tape().record(RmsNorm(eps), {x, gamma}, y, {rstd}, line);
}

}  // namespace jnorm
