#include <jnorm/layers/linear.hpp>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

Tensor starting_weight(Index in, Index out, const LinearOptions& options, Rng& rng) {
  expect(in > 0 && out > 0, "linear: expected positive sizes, got {} -> {}", in, out);
  return affine(randn({out, in}, rng), options.gain * weight_deviation(options.initialization, in, out), 0.0);
}

}  // namespace

Linear::Linear(Index in, Index out, const LinearOptions& options, Rng& rng)
    : weight_(add_parameter("weight", starting_weight(in, out, options, rng))) {
  if (options.bias) bias_ = &add_parameter("bias", zeros({out}));
}

Var Linear::forward(const Var& x, const Pass& /*pass*/, SourceLine line) {
  const Var weight = parameter_for(x, weight_, line);
  return linear(x, weight, bias_ != nullptr ? parameter_for(x, *bias_, line) : Var(), line);
}

}  // namespace jnorm
