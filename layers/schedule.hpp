#pragma once

#include <string>
#include <string_view>

#include <jnorm/core/shape.hpp>

namespace jnorm {

// How the learning rate goes on after the warm-up.
enum class Decay {
  constant,
  linear,        // to 0 in the last step
  cosine,        // to 0 in the last step, along half a wave (Loshchilov and Hutter 2017)
  inverse_sqrt,  // as 1 / sqrt(step) (Vaswani et al. 2017)
};

std::string to_string(Decay decay);
Decay decay_from_string(std::string_view name);  // throws Error(argument) that lists the names

// The learning rate of every step; steps count from 0. It rises linearly over the warm-up, whose last step has the base
// rate exactly, stays there for hold_steps, and decays.
struct Schedule {
  Decay decay = Decay::constant;
  double base = 1e-3;
  Index warmup_steps = 0;  // with 0 or 1 the first step has the base rate
  Index hold_steps = 0;
  Index total_steps = 0;  // linear and cosine end there, and stay at their last rate afterwards

  // Throws Error(argument) on a negative number, a base that isn't finite, or a linear or cosine schedule that has
  // fewer steps in total than it warms up and holds.
  void validate() const;

  double learning_rate(Index step) const;  // validates too
};

}  // namespace jnorm
