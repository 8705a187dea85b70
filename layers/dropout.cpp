#include <jnorm/layers/dropout.hpp>

#include <jnorm/autograd/ops/dropout.hpp>
#include <jnorm/core/expect.hpp>

namespace jnorm {

Dropout::Dropout(double p) : p_(p) {
  expect(p >= 0.0 && p <= 1.0, "dropout: expected a probability in [0, 1], got {}", p);
}

Var Dropout::forward(const Var& x, const Pass& /*pass*/, SourceLine line) {
  return training() ? dropout(x, p_, rng_, line) : x;
}

}  // namespace jnorm
