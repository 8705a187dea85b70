#pragma once

#include <string>
#include <string_view>

#include <jnorm/core/kernels.hpp>
#include <jnorm/layers/linear.hpp>

namespace jnorm {

std::string to_string(Activation activation);
Activation activation_from_string(std::string_view name);  // throws Error(argument) that lists the names
Var activate(Activation activation, const Var& x, SourceLine line = SourceLine::here());

struct FeedForwardConfig {
  Index dim = 64;
  Index ffn = 256;  // the inner width
  Activation activation = Activation::relu;
  Initialization initialization = Initialization::xavier;
};

// down(activation(up(x))), [..., dim] -> [..., ffn] -> [..., dim], the same for every position. Children: up, down.
class FeedForward : public Layer {
 public:
  FeedForward(const FeedForwardConfig& config, const Rng& rng);

 protected:
  Var forward(const Var& x, SourceLine line) override;

 private:
  Activation activation_;
  Linear& up_;
  Linear& down_;
};

}  // namespace jnorm
