#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <jnorm/core/kernels.hpp>
#include <jnorm/layers/linear.hpp>

namespace jnorm {

std::string to_string(Activation activation);
Activation activation_from_string(std::string_view name);  // throws Error(argument) that lists the names
const std::vector<Activation>& activations();
Var activate(Activation activation, const Var& x, SourceLine line = SourceLine::here());

struct FeedForwardConfig {
  Index dim = 64;
  Index ffn = 256;  // the inner width
  Activation activation = Activation::relu;
  bool gated = false;
  bool bias = true;
  Initialization initialization = Initialization::xavier;
  BranchGains gains = {};
};

// down(activation(up(x))), [..., dim] -> [..., ffn] -> [..., dim], the same for every position. Gated it is
// down(activation(gate(x)) * up(x)), with silu SwiGLU (Shazeer 2020). Children: up, down, and gate if there is one.
class FeedForward : public Layer {
 public:
  FeedForward(const FeedForwardConfig& config, const Rng& rng);

 protected:
  Var forward(const Var& x, const Pass& pass, SourceLine line) override;

 private:
  Activation activation_;
  Linear& up_;
  Linear& down_;
  Linear* gate_ = nullptr;
};

}  // namespace jnorm
