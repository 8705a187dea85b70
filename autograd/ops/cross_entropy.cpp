// The mean negative log-likelihood of the targets under softmax(logits).
//
//   [CE.1]  loss = (1/n) sum over counted rows of (logsumexp(x) - x[target])
//   [CE.2]  dx = dloss (p - onehot(target)) / n on counted rows, 0 on ignored ones
//   [CE.3]  loss_dot = (1/n) sum over counted rows of (sum(p * x_dot) - x_dot[target])
//
// n counts the targets that aren't kIgnoreIndex. Saves logsumexp, one value a row; p is recomputed from it.

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/one_hot.hpp>
#include <jnorm/autograd/site.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

struct CrossEntropy : Fused<CrossEntropy> {
  static constexpr Description kDescription{.name = "cross_entropy",
                                            .inputs = "logits targets",
                                            .formula = "loss = mean(logsumexp(x) - x[target])",
                                            .saved_inputs = 0b11};

  void vjp(Pullback& back) const override {
    back.output().device().kernels().cross_entropy_dx(back.cotangent(), back.input(0), back.input(1), back.saved(0),
                                                      back.into(0));  // [CE.2]
  }

  // The gradient is the row of J, so J x_dot is its product with each tangent.
  void jvp(Pushforward& push) const override {
    if (!push.has(0)) return;
    const Tensor& logits = push.input(0);
    const Tensor row = Tensor::uninitialized(logits.shape(), logits.dtype(), logits.device());
    logits.device().kernels().cross_entropy_dx(ones({}, logits.dtype(), logits.device()), logits, push.input(1),
                                               push.saved(0), {.tensor = row});
    const std::uint32_t all = (1u << logits.rank()) - 1u;
    push.give(sum_axes(multiply(push.tangent(0), row), all << push.axis(0)));  // [CE.3]
  }

  Var composed(std::span<const Var> inputs) const override {
    const Var& logits = inputs[0];
    const Tensor& targets = inputs[1].value();
    const Tensor chosen = one_hot(targets, logits.dim(-1), logits.dtype()).reshape(logits.shape());
    double count = 0.0;
    for (const double target : targets.values()) count += target != kIgnoreIndex ? 1.0 : 0.0;
    return sum(log_softmax(logits) * chosen) * (count > 0.0 ? -1.0 / count : 0.0);
  }
};

}  // namespace

Var cross_entropy(const Var& logits, const Tensor& targets, SourceLine line) {
  const Site site{logits.tape(), line};
  expect(logits.rank() >= 1, site, "cross_entropy: logits must be [..., V], got a scalar");
  expect(targets.defined() && targets.dtype() == DType::int32, site, "cross_entropy: targets must be int32, got {}",
         targets.defined() ? to_string(targets.dtype()) : "an undefined tensor");
  const Index classes = logits.dim(-1);
  expect(targets.size() == logits.value().rows() && logits.shape().with_axis(-1, 1).size() == targets.size(), site,
         "cross_entropy: logits {} need one target a row, got targets {}", logits.shape(), targets.shape());
  const std::int32_t* const target = targets.data<std::int32_t>();
  for (Index i = 0; i < targets.size(); ++i) {
    expect(target[i] == kIgnoreIndex || (target[i] >= 0 && target[i] < classes), site,
           "cross_entropy: target {} at position {} is outside [0, {}) and isn't {} (ignored)", target[i], i, classes,
           kIgnoreIndex);
  }
  const DType dtype = logits.dtype();
  const Device device = logits.value().device();
  Tensor loss = Tensor::uninitialized({}, dtype, device);
  Tensor lse = Tensor::uninitialized({logits.value().rows()}, dtype, device);
  device.kernels().cross_entropy(logits.value(), targets, loss, lse);
  const Var recorded_targets = logits.tape().constant(targets, "targets", line);
  return logits.tape().record(CrossEntropy{}, {logits, recorded_targets}, std::move(loss), {std::move(lse)}, line);
}

}  // namespace jnorm
