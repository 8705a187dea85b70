#pragma once

#include <vector>

#include <jnorm/core/random.hpp>
#include <jnorm/layers/residual.hpp>
#include <jnorm/layers/transformer_config.hpp>

namespace jnorm {

// One layer of a Transformer, [B, T, dim] -> the same (two streams: 2 dim): residual sublayers one after the other.
// Children: attention; cross_attention, in a decoder beside an encoder; ffn.
class Block : public Layer {
 public:
  // `place` says which layer of which stack it is; its branch isn't looked at.
  Block(const TransformerConfig& config, const Rng& rng, SublayerPlace place = {});

  const std::vector<ResidualSublayer*>& sublayers() const { return sublayers_; }

 protected:
  Var forward(const Var& x, const Pass& pass, SourceLine line) override;

 private:
  std::vector<ResidualSublayer*> sublayers_;
};

}  // namespace jnorm
