#pragma once

#include <memory>

#include <jnorm/autograd/tape.hpp>
#include <jnorm/core/random.hpp>
#include <jnorm/layers/block.hpp>
#include <jnorm/layers/dropout.hpp>
#include <jnorm/layers/embedding.hpp>
#include <jnorm/layers/key_value_cache.hpp>
#include <jnorm/layers/linear.hpp>
#include <jnorm/layers/model_input.hpp>
#include <jnorm/layers/transformer_config.hpp>

namespace jnorm {

// A Transformer of any kind: embeddings of tokens and positions, a stack of blocks (behind a stack of its own that
// encodes a source, if there is one), and a map to logits. Children, of those that the configuration asks for:
// token_embedding, position_embedding, embedding_norm, embedding_dropout, encoder_blocks, encoder_norm, blocks,
// final_norm, head_transform, head_norm, head. Parameter: head_bias.
class Transformer : public Module {
 public:
  // The parameters follow from rng's seed and stream and from their paths, in every dtype; rng is not drawn from. So
  // models of different placements, or of different depths in what they share, start with the same weights. Throws
  // Error(argument) on a configuration that doesn't hold together, or needs more memory than the machine has.
  Transformer(const TransformerConfig& config, const Rng& rng);

  // tokens [B, T] with 1 <= T <= context -> logits [B, T, vocabulary]. Throws Error(argument) on other shapes, on a
  // token outside [0, vocabulary), and on a source where the model has no encoder, or none where it has one. What it
  // reads may be on the CPU, wherever the model is.
  Var operator()(Tape& tape, const ModelInput& input, SourceLine line = SourceLine::here());
  Var operator()(Tape& tape, const Tensor& tokens, SourceLine line = SourceLine::here()) {
    return (*this)(tape, ModelInput{.tokens = tokens}, line);
  }
  // The same where the tokens follow those that the cache has seen: [B, T] -> logits of these T, as if all had been
  // read together. In evaluation mode and under NoRecord; a source comes with the first tokens alone, and no position
  // is masked. Throws Error as above, and on an encoder, which reads all tokens at once; the cache's length stays then.
  Var operator()(Tape& tape, const ModelInput& input, KeyValueCache& cache, SourceLine line = SourceLine::here());

  // The parts of it. Tokens -> x_0 [B, T, W], where the first of them stands at the pass's first position. W is dim, or
  // 2 dim for a placement with two streams, which both begin with the embedding.
  Var embed(Tape& tape, const Tensor& tokens, SourceLine line = SourceLine::here()) {
    return embed(tape, tokens, Pass{}, line);
  }
  Var embed(Tape& tape, const Tensor& tokens, const Pass& pass, SourceLine line = SourceLine::here());
  Var begin_streams(const Var& embedded);  // [B, T, dim] -> [B, T, W]
  // What the pass of the main stack is, with the source encoded.
  Pass begin_pass(Tape& tape, const ModelInput& input, SourceLine line = SourceLine::here());
  Pass begin_pass(Tape& tape, const ModelInput& input, KeyValueCache& cache, SourceLine line = SourceLine::here());
  // x_0 -> x_L: the residual stack alone. A cache in the pass has seen x's tokens then.
  Var stack(const Var& x, const Pass& pass = {});
  Var final_hidden(const Var& x, const Pass& pass = {});  // x_L -> [B, T, dim], after the final norm
  Var unembed(const Var& x, const Pass& pass = {});       // x_L -> logits

  const TransformerConfig& config() const { return config_; }
  void to(DType dtype) override;
  void to(Device device) override;

 private:
  Var encode(Tape& tape, const ModelInput& input, SourceLine line);
  Tensor positions_of(Index first, Index length) const;  // first, first + 1, ..., where the model is
  Var end_streams(const Var& x, Layer* norm, const Pass& pass) const;

  TransformerConfig config_;
  Embedding& token_embedding_;
  Embedding* position_embedding_ = nullptr;
  Tensor positions_;  // [context]: 0, 1, ...
  Tensor sinusoids_;  // [context, dim], of sinusoidal positions
  Layer* embedding_norm_ = nullptr;
  Layer* embedding_dropout_ = nullptr;
  Sequence* encoder_blocks_ = nullptr;
  Layer* encoder_norm_ = nullptr;
  Sequence* blocks_ = nullptr;
  Layer* final_norm_ = nullptr;
  Linear* head_transform_ = nullptr;
  Layer* head_norm_ = nullptr;
  Linear* head_ = nullptr;  // or the embeddings' table
  Parameter* head_bias_ = nullptr;
};

}  // namespace jnorm
