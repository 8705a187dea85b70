#pragma once

#include <span>
#include <string>
#include <vector>

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

enum class NoGradient : std::uint8_t {
  frozen,        // it isn't trainable
  not_recorded,  // the tape never saw it
  detached,      // it reaches the loss through detach() or a NoRecord scope alone
  unused,        // it is on the tape, but the loss doesn't depend on it
  not_computed,  // the loss depends on it, but backward wasn't called since the last step
  zero_by_norm,  // zero, and it reaches the loss only through something that takes a shift of its input out
  zero,          // zero for another reason: a dead ReLU, a factor of zero
};

struct MissingGradient {
  std::string parameter;  // its path
  NoGradient reason;
  std::string sentence;  // for a person: "blocks.0.ffn.up.bias has the gradient 0: ..."
};

// Of all parameters that have no gradient after backward(loss), or one that is zero to rounding beside the largest of
// the others (in narrow dtypes to float32's rounding): why. NaN and infinity aren't zero. In their order; empty if all
// is well. Throws Error(state) on a loss of a tape that was reset.
std::vector<MissingGradient> missing_gradients(const Var& loss, std::span<Parameter* const> parameters);

}  // namespace jnorm
