#pragma once

#include <memory>
#include <optional>

#include <jnorm/autograd/tape.hpp>
#include <jnorm/core/random.hpp>
#include <jnorm/layers/embedding.hpp>
#include <jnorm/layers/feed_forward.hpp>
#include <jnorm/layers/initialization.hpp>
#include <jnorm/layers/linear.hpp>
#include <jnorm/layers/norm.hpp>
#include <jnorm/layers/placement.hpp>
#include <jnorm/layers/residual.hpp>

namespace jnorm {

struct TransformerConfig {
  Index vocabulary = 256;  // bytes
  Index layers = 6;
  Index dim = 64;  // the width of the residual stream
  Index heads = 4;
  Index ffn = 0;       // the inner width of the feed-forward branch; 0: 4 dim
  Index context = 64;  // the most positions that a sequence may have
  Placement placement = Placement::pre;
  NormKind norm = NormKind::layer;
  double eps = kNormEps;
  Activation activation = Activation::relu;
  std::optional<bool> final_norm = std::nullopt;  // unset: what the placement says
  Initialization initialization = Initialization::xavier;
  DType dtype = DType::float32;  // of the parameters and all arithmetic

  Index ffn_width() const { return ffn == 0 ? 4 * dim : ffn; }
  bool has_final_norm() const { return final_norm.value_or(placement.final_norm); }
  // Throws Error(argument), one line: "heads: 5 don't divide dim 64".
  void validate() const;

  friend bool operator==(const TransformerConfig&, const TransformerConfig&) = default;
};

// One layer of a Transformer, [B, T, dim] -> the same: two residual sublayers. Children: attention, ffn.
class Block : public Layer {
 public:
  Block(const TransformerConfig& config, const Rng& rng);

 protected:
  Var forward(const Var& x, SourceLine line) override;

 private:
  ResidualSublayer& attention_;
  ResidualSublayer& ffn_;
};

// A decoder-only language model: token and learned position embeddings, a stack of blocks, a final norm if the
// configuration says so, and a linear map to logits. Children: token_embedding, position_embedding, blocks, final_norm,
// head.
class Transformer : public Module {
 public:
  // The parameters follow from rng's seed and stream and from their paths, in every dtype; rng is not drawn from. So
  // models of different placements, or of different depths in what they share, start with the same weights.
  Transformer(const TransformerConfig& config, const Rng& rng);

  // tokens [B, T] of int32 with 1 <= T <= context -> logits [B, T, vocabulary]. Throws Error(argument) on other shapes
  // and on a token outside [0, vocabulary).
  Var operator()(Tape& tape, const Tensor& tokens, SourceLine line = SourceLine::here());

  // The parts of it: tokens -> x_0 [B, T, dim]; the residual stack alone, x_0 -> x_L; x_L -> logits.
  Var embed(Tape& tape, const Tensor& tokens, SourceLine line = SourceLine::here());
  Var stack(const Var& x);
  Var unembed(const Var& x);

  const TransformerConfig& config() const { return config_; }
  void to(DType dtype) override;

 private:
  TransformerConfig config_;
  Embedding& token_embedding_;
  Embedding& position_embedding_;
  Sequence& blocks_;
  Layer* final_norm_ = nullptr;
  Linear* head_ = nullptr;
};

}  // namespace jnorm
