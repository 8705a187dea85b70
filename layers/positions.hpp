#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <jnorm/core/tensor.hpp>

namespace jnorm {

// How a model tells positions apart.
enum class Positions {
  learned,     // a table of their own, added to the tokens' embeddings (Devlin et al. 2019, Radford et al. 2019)
  sinusoidal,  // sines and cosines, added (Vaswani et al. 2017, section 3.5)
  rotary,      // queries and keys are rotated (Su et al. 2021)
  none,        // by the causal mask alone
};

std::string to_string(Positions positions);
Positions positions_from_string(std::string_view name);  // throws Error(argument) that lists the names
const std::vector<Positions>& all_positions();

// [length, dim]: at position p, sin(p / 10000^(2i/dim)) in feature 2i and cos of the same in feature 2i + 1.
Tensor sinusoidal_positions(Index length, Index dim, DType dtype = DType::float32);

}  // namespace jnorm
