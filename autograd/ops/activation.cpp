// The activations of feed-forward sublayers: one pass forward, one back. Elementwise, so the Jacobian is diagonal and
// one kernel serves both sweeps.
//
//   relu       y = max(x, 0)                                             y' = 1 where x > 0, else 0
//   gelu       y = x Phi(x)                                              y' = Phi(x) + x phi(x)
//   gelu_tanh  y = x/2 (1 + t), t = tanh(c (x + 0.044715 x^3))           y' = (1 + t)/2 + x/2 (1 - t^2) c (1 +
//   3*0.044715 x^2)
//
//   silu       y = x s, s = 1/(1 + e^-x)                                 y' = s + x s (1 - s)
//
// with Phi and phi the standard normal distribution and density, and c = sqrt(2/pi).

#include <cmath>
#include <numbers>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/site.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

template <class Self>
struct ActivationOperation : Fused<Self> {
  void vjp(Pullback& back) const override {
    const Destination dx = back.into(0);
    back.output().device().kernels().activation_dx(Self::kActivation, back.cotangent(), back.input(0), dx);
  }
  void jvp(Pushforward& push) const override {
    if (!push.has(0)) return;
    const Tensor& tangent = push.tangent(0);
    Tensor result = Tensor::uninitialized(tangent.shape(), tangent.dtype(), tangent.device());
    tangent.device().kernels().activation_dx(Self::kActivation, tangent, push.input(0), {.tensor = result});
    push.give(std::move(result));
  }
};

struct Relu : ActivationOperation<Relu> {
  static constexpr Activation kActivation = Activation::relu;
  static constexpr Description kDescription{
      .name = "relu", .inputs = "x", .formula = "y = max(x, 0)", .saved_inputs = 0b1, .row_inputs = 0b1};

  Var composed(std::span<const Var> inputs) const override {
    const Var& x = inputs[0];
    return x * (sign(x) + 1.0) * 0.5;
  }
};

struct Gelu : ActivationOperation<Gelu> {
  static constexpr Activation kActivation = Activation::gelu;
  static constexpr Description kDescription{.name = "gelu",
                                            .inputs = "x",
                                            .formula = "y = x Phi(x)",
                                            .source = "Hendrycks and Gimpel 2016",
                                            .saved_inputs = 0b1,
                                            .row_inputs = 0b1};

  Var composed(std::span<const Var> inputs) const override {
    const Var& x = inputs[0];
    return x * (erf(x / std::numbers::sqrt2) + 1.0) * 0.5;
  }
};

struct GeluTanh : ActivationOperation<GeluTanh> {
  static constexpr Activation kActivation = Activation::gelu_tanh;
  static constexpr Description kDescription{.name = "gelu_tanh",
                                            .inputs = "x",
                                            .formula = "y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))",
                                            .source = "Hendrycks and Gimpel 2016",
                                            .saved_inputs = 0b1,
                                            .row_inputs = 0b1};

  Var composed(std::span<const Var> inputs) const override {
    const Var& x = inputs[0];
    const double c = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    return x * (tanh((x + x * square(x) * 0.044715) * c) + 1.0) * 0.5;
  }
};

struct Silu : ActivationOperation<Silu> {
  static constexpr Activation kActivation = Activation::silu;
  static constexpr Description kDescription{.name = "silu",
                                            .inputs = "x",
                                            .formula = "y = x/(1 + e^-x)",
                                            .source = "Elfwing, Uchibe and Doya 2018",
                                            .saved_inputs = 0b1,
                                            .row_inputs = 0b1};

  Var composed(std::span<const Var> inputs) const override {
    const Var& x = inputs[0];
    return x * sigmoid(x);
  }
};

template <class Op>
Var record_activation(const Var& x, SourceLine line) {
  expect_numbers(Op::kDescription.name, x, site_of(Op::kDescription.name, x, line));
  const Tensor& value = x.value();
  Tensor y = Tensor::uninitialized(value.shape(), value.dtype(), value.device());
  value.device().kernels().activation(Op::kActivation, value, y);
  return x.tape().record(Op{}, {x}, std::move(y), {}, line);
}

}  // namespace

Var relu(const Var& x, SourceLine line) { return record_activation<Relu>(x, line); }
Var gelu(const Var& x, SourceLine line) { return record_activation<Gelu>(x, line); }
Var gelu_tanh(const Var& x, SourceLine line) { return record_activation<GeluTanh>(x, line); }
Var silu(const Var& x, SourceLine line) { return record_activation<Silu>(x, line); }

}  // namespace jnorm
