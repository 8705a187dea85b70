#pragma once

#include <jnorm/layers/module.hpp>

namespace jnorm {

// In training, sets each number to 0 with probability p and divides the others by 1 - p; in evaluation, passes x on.
// What it draws follows from Module::start_random and from the number of calls since.
class Dropout : public Layer {
 public:
  explicit Dropout(double p);  // throws Error(argument) unless p lies in [0, 1]

  void start_random(const Rng& rng) override { rng_ = rng; }

 protected:
  Var forward(const Var& x, const Pass& pass, SourceLine line) override;

 private:
  double p_;
  Rng rng_{0};
};

}  // namespace jnorm
