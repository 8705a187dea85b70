#include <jnorm/layers/linear.hpp>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

Tensor starting_weight(Index in, Index out, Initialization initialization, Rng& rng) {
  expect(in > 0 && out > 0, "linear: expected positive sizes, got {} -> {}", in, out);
  return affine(randn({out, in}, rng), weight_deviation(initialization, in, out), 0.0);
}

}  // namespace

Linear::Linear(Index in, Index out, const LinearOptions& options, Rng& rng)
    : weight_(add_parameter("weight", starting_weight(in, out, options.initialization, rng))) {
  if (options.bias) bias_ = &add_parameter("bias", zeros({out}));
}

Var Linear::forward(const Var& x, SourceLine line) {
  Tape& tape = x.tape();
  const Var weight = tape.parameter(weight_, line);
  return linear(x, weight, bias_ != nullptr ? tape.parameter(*bias_, line) : Var(), line);
}

}  // namespace jnorm
