#pragma once

#include <jnorm/core/random.hpp>
#include <jnorm/layers/initialization.hpp>
#include <jnorm/layers/module.hpp>

namespace jnorm {

struct LinearOptions {
  bool bias = true;
  Initialization initialization = Initialization::xavier;
  double gain = 1.0;  // of the starting weights
};

// y = x W^T + b: x [..., in] -> [..., out], with parameters weight [out, in] and bias [out], which starts at 0.
class Linear : public Layer {
 public:
  // Throws Error(argument) unless both sizes are positive.
  Linear(Index in, Index out, Rng& rng) : Linear(in, out, {}, rng) {}
  Linear(Index in, Index out, const LinearOptions& options, Rng& rng);

 protected:
  Var forward(const Var& x, const Pass& pass, SourceLine line) override;

 private:
  Parameter& weight_;
  Parameter* bias_ = nullptr;
};

}  // namespace jnorm
