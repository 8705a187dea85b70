// ScaleNorm over the last axis. Derivation: scale_norm.md.
//
//   [SN.1]  n = sqrt(sum(x^2) + eps)     x_hat = x / n     y = g * x_hat
//   [SN.2]  dx = g * (dy - x_hat * sum(dy * x_hat)) / n
//   [SN.3]  dg = sum over all elements of dy * x_hat
//   [SN.4]  y_dot = g * (x_dot - x_hat * sum(x_hat * x_dot)) / n + g_dot * x_hat

#include <algorithm>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/norm_arguments.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

// 1 for the rows of x that are zero throughout, 0 for the others: [..., 1].
Tensor zero_rows(const Tensor& x) {
  const std::vector<double> elements = x.values();
  const auto width = x.row_length();
  std::vector<double> zero(static_cast<std::size_t>(x.rows()));
  for (std::size_t r = 0; r < zero.size(); ++r) {
    const auto* const row = elements.data() + static_cast<Index>(r) * width;
    zero[r] = std::all_of(row, row + width, [](double element) { return element == 0.0; }) ? 1.0 : 0.0;
  }
  return tensor(x.shape().with_axis(-1, 1), zero, x.dtype()).to(x.device());
}

struct ScaleNorm : Fused<ScaleNorm> {
  static constexpr Description kDescription{.name = "scale_norm",
                                            .inputs = "x g",
                                            .formula = "y = g * x / sqrt(sum(x^2) + eps)",
                                            .derivation = "autograd/ops/scale_norm.md",
                                            .source = "Nguyen and Salazar 2019",
                                            .saved_inputs = 0b11,
                                            .saved = "rnorm",
                                            .row_inputs = 0b1,
                                            .row_saved = 0b1};
  double eps;
  explicit ScaleNorm(double epsilon) : eps(epsilon) {}
  std::optional<double> setting(std::string_view name) const override { return number_if(name == "eps", eps); }

  // x [R, H], g []. Saves 1/n, one value a row; x_hat is recomputed.
  void vjp(Pullback& back) const override {
    const Kernels& kernels = back.output().device().kernels();
    const Tensor& x = back.input(0);
    const Tensor g = back.has_input(1) ? back.input(1) : Tensor();
    if (back.wants(0)) kernels.scale_norm_dx(back.cotangent(), x, g, back.saved(0), back.into(0));  // [SN.2]
    if (back.wants(1)) kernels.scale_norm_dg(back.cotangent(), x, back.saved(0), back.into(1));     // [SN.3]
  }

  void jvp(Pushforward& push) const override {  // [SN.4]
    const Kernels& kernels = push.output().device().kernels();
    const Tensor& x = push.input(0);
    const Tensor& rnorm = push.saved(0);
    if (push.has(0)) {  // the Jacobian is symmetric
      Tensor y_dot = Tensor::uninitialized(push.tangent(0).shape(), x.dtype(), x.device());
      kernels.scale_norm_dx(push.tangent(0), x, push.has_input(1) ? push.input(1) : Tensor(), rnorm, {.tensor = y_dot});
      push.give(std::move(y_dot));
    }
    if (push.has(1)) {
      Tensor x_hat = Tensor::uninitialized(x.shape(), x.dtype(), x.device());
      kernels.scale_norm(x, {}, eps, x_hat, rnorm.clone());
      push.give(multiply(along_all(push, push.tangent(1)), x_hat));
    }
  }

  Var composed(std::span<const Var> inputs) const override {
    const Var& x = inputs[0];
    const Var g_x = inputs.size() > 1 ? x * inputs[1] : x;
    const Var squares = sum(square(x), {-1}, Keep::yes);
    if (eps > 0) return g_x * rsqrt(squares + eps);
    // A zero row is divided by 1 and then taken out, so that y and every derivative of it are 0.
    const Tensor zero = zero_rows(x.value());
    return g_x * rsqrt(squares + zero) * affine(zero, -1.0, 1.0);
  }
};

}  // namespace

Var scale_norm(const Var& x, const Var& g, double eps, SourceLine line) {
  const Site site = site_of("scale_norm", x, line);
  expect_norm_arguments("scale_norm", x, eps, site);
  if (g.defined()) expect_norm_scalar("scale_norm", "g", x, g, site);
  const Tensor& value = x.value();
  Tensor y = Tensor::uninitialized(value.shape(), value.dtype(), value.device());
  Tensor rnorm = Tensor::uninitialized({value.rows()}, statistics_dtype(value.dtype()), value.device());
  value.device().kernels().scale_norm(value, value_or_none(g), eps, y, rnorm);  // [SN.1]
  if (!g.defined()) return x.tape().record(ScaleNorm(eps), {x}, y, {rnorm}, line);
  return x.tape().record(ScaleNorm(eps), {x, g}, y, {rnorm}, line);
}

}  // namespace jnorm
