#pragma once

#include <jnorm/core/random.hpp>
#include <jnorm/layers/module.hpp>

namespace jnorm {

class Tape;

// A row of a table for every token: tokens [...] of int32 -> [..., dim], with the parameter table [count, dim].
class Embedding : public Module {
 public:
  // The table starts normal with this standard deviation. Throws Error(argument) unless the sizes are positive and the
  // deviation is a number that isn't negative.
  Embedding(Index count, Index dim, double deviation, Rng& rng);

  Parameter& table() { return table_; }

  // Throws Error(argument) on a token outside [0, count).
  Var operator()(Tape& tape, const Tensor& tokens, SourceLine line = SourceLine::here());

 private:
  Parameter& table_;
};

}  // namespace jnorm
