#pragma once

#include <string>

#include <jnorm/autograd/non_finite.hpp>
#include <jnorm/layers/state.hpp>

namespace jnorm {

// The first weight that isn't finite, for a message: "weight token_embedding.table [256, 8] is nan at [0, 3]". Empty if
// all are finite.
std::string describe_non_finite_weight(const NamedTensors& weights);

}  // namespace jnorm
