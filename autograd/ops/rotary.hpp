#pragma once

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

struct RotaryOptions {
  double base = 10000.0;     // at least 1; the larger, the slower the last pairs of columns turn
  Index first_position = 0;  // of x's first row: with a cache of earlier keys, their number
};

// Rotary position embedding (Su et al. 2021) of x [B, T, heads * d], for queries and keys before they meet: their
// products then depend on how far apart they stand, not on where. In each head's d columns, an even number, the pairs
// (c, c + d/2) are turned by the angle (first_position + t) base^(-2c/d).
//
// These pairs are the layout of LLaMA's and Qwen's files as Hugging Face has them; the paper's is (2c, 2c + 1).
Var rotary(const Var& x, Index heads, const RotaryOptions& options = {}, SourceLine line = SourceLine::here());

}  // namespace jnorm
