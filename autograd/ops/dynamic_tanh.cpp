// Dynamic tanh, a norm's replacement without statistics. Derivation: dynamic_tanh.md.
//
//   [DYT.1]  t = tanh(alpha * x)     y = gamma * t + beta
//   [DYT.2]  dx = gamma * alpha * (1 - t^2) * dy,   1 - t^2 = sech(alpha * x)^2
//   [DYT.3]  dgamma = sum over rows of dy * t     dbeta = sum over rows of dy
//            dalpha = sum over all elements of gamma * dy * x * (1 - t^2)
//   [DYT.4]  y_dot = gamma * (1 - t^2) * (alpha * x_dot + alpha_dot * x) + gamma_dot * t + beta_dot

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/norm_arguments.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

// 4 e / (1 + e)^2 with e = exp(-2 |a|): 1 - tanh(a)^2 would cancel.
Tensor sech_squared(const Tensor& a) {
  const Tensor e = exp(affine(abs(a), -2.0, 0.0));
  return divide(affine(e, 4.0, 0.0), square(affine(e, 1.0, 1.0)));
}

struct DynamicTanh : Fused<DynamicTanh> {
  static constexpr Description kDescription{.name = "dynamic_tanh",
                                            .inputs = "x alpha gamma beta",
                                            .formula = "y = gamma * tanh(alpha * x) + beta",
                                            .derivation = "autograd/ops/dynamic_tanh.md",
                                            .source = "Zhu et al. 2025",
                                            .saved_inputs = 0b111,
                                            .row_inputs = 0b1};
  std::int8_t gamma, beta;  // the inputs' numbers, or -1 if there are none
  DynamicTanh(std::int8_t gamma_number, std::int8_t beta_number) : gamma(gamma_number), beta(beta_number) {}

  // x [R, H], alpha [], gamma [H], beta [H]. Saves nothing of its own; t is recomputed.
  void vjp(Pullback& back) const override {
    const Kernels& kernels = back.output().device().kernels();
    const Tensor& dy = back.cotangent();
    const Tensor& x = back.input(0);
    const Tensor& alpha = back.input(1);
    const Tensor scale = optional_input(back, gamma);
    if (back.wants(0)) kernels.dynamic_tanh_dx(dy, x, alpha, scale, back.into(0));  // [DYT.2]
    const Destination dalpha = back.into(1), dgamma = optional_into(back, gamma);
    if (dalpha.wanted() || dgamma.wanted()) {
      kernels.dynamic_tanh_dparameters(dy, x, alpha, scale, dalpha, dgamma);  // [DYT.3]
    }
    if (const Destination dbeta = optional_into(back, beta); dbeta.wanted()) {
      const Index copies = std::max<Index>(back.copies(), 1);
      kernels.column_sum(reshape(dy, {copies, x.rows(), x.row_length()}), dbeta);  // [DYT.3]
    }
  }

  void jvp(Pushforward& push) const override {  // [DYT.4]
    const Tensor& x = push.input(0);
    const Tensor& alpha = push.input(1);
    const Tensor a = multiply(x, reshape(alpha, {}));
    const auto has = [&](int i) { return i >= 0 && push.has(static_cast<std::size_t>(i)); };
    const auto tangent = [&](int i) { return push.tangent(static_cast<std::size_t>(i)); };
    if (push.has(0)) {  // the Jacobian is diagonal: the same map both ways
      Tensor y_dot = Tensor::uninitialized(tangent(0).shape(), x.dtype(), x.device());
      x.device().kernels().dynamic_tanh_dx(tangent(0), x, alpha, optional_input(push, gamma), {.tensor = y_dot});
      push.give(std::move(y_dot));
    }
    if (push.has(1)) {
      const Tensor by_alpha = multiply(x, sech_squared(a));
      push.give(multiply(along_all(push, tangent(1)), gamma < 0 ? by_alpha : multiply(by_alpha, push.input(2))));
    }
    if (has(gamma)) push.give(multiply(along_rows(push, tangent(gamma)), tanh(a)));
    if (has(beta)) push.give(along_rows(push, tangent(beta)));
  }

  Var composed(std::span<const Var> inputs) const override {
    Var y = tanh(inputs[0] * inputs[1]);
    if (gamma >= 0) y = y * inputs[static_cast<std::size_t>(gamma)];
    if (beta >= 0) y = y + inputs[static_cast<std::size_t>(beta)];
    return y;
  }
};

}  // namespace

Var dynamic_tanh(const Var& x, const Var& alpha, const Var& gamma, const Var& beta, SourceLine line) {
  const Site site = site_of("dynamic_tanh", x, line);
  expect_numbers("dynamic_tanh", x, site);
  expect(x.rank() >= 1, site, "dynamic_tanh: expected at least one axis, got a scalar");
  expect(alpha.defined(), site, "dynamic_tanh: alpha is undefined; it must be one number, [] or [1]");
  expect_norm_scalar("dynamic_tanh", "alpha", x, alpha, site);
  if (gamma.defined()) expect_norm_parameter("dynamic_tanh", "gamma", x, gamma, site);
  if (beta.defined()) expect_norm_parameter("dynamic_tanh", "beta", x, beta, site);
  const Tensor& value = x.value();
  Tensor y = Tensor::uninitialized(value.shape(), value.dtype(), value.device());
  value.device().kernels().dynamic_tanh(value, alpha.value(), value_or_none(gamma), value_or_none(beta), y);  // [DYT.1]
  InputList inputs;
  inputs.add(x);
  inputs.add(alpha);
  const std::int8_t gamma_number = inputs.add(gamma), beta_number = inputs.add(beta);
  Tape& tape = x.tape();
  return tape.record_node(tape.keep(DynamicTanh(gamma_number, beta_number)), inputs.all(), y, {}, line);
}

}  // namespace jnorm
