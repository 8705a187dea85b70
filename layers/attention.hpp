#pragma once

#include <jnorm/layers/linear.hpp>

namespace jnorm {

struct AttentionConfig {
  Index dim = 64;
  Index heads = 4;
  Initialization initialization = Initialization::xavier;
};

// Causal multi-head self-attention, [B, T, dim] -> [B, T, dim]: linear maps to queries, keys and values, attention in
// each head, and a linear map of the heads' outputs side by side (Vaswani et al. 2017). Children: query, key, value,
// output.
class Attention : public Layer {
 public:
  // Throws Error(argument) unless the heads divide the width.
  Attention(const AttentionConfig& config, const Rng& rng);

 protected:
  Var forward(const Var& x, SourceLine line) override;

 private:
  Index heads_;
  Linear& query_;
  Linear& key_;
  Linear& value_;
  Linear& output_;
};

}  // namespace jnorm
