#include <jnorm/layers/transformer.hpp>

#include <cmath>
#include <numeric>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/site.hpp>
#include <jnorm/layers/memory_estimate.hpp>

namespace jnorm {

namespace {

using Side = SublayerPlace::Side;

double deviation(const TransformerConfig& config) {
  return embedding_deviation(config.initialization, {.dim = config.dim,
                                                     .addends = config.positions == Positions::learned ? 2 : 1,
                                                     .tied = config.tied_embedding,
                                                     .scaled = config.scaled_embedding,
                                                     .layers = config.layers});
}

std::unique_ptr<Sequence> make_blocks(const TransformerConfig& config, Side side, const Rng& rng) {
  const bool both = config.kind == ModelKind::encoder_decoder;
  const Index layers = side == Side::encoder ? config.encoder_layer_count() : config.layers;
  auto blocks = std::make_unique<Sequence>();
  for (Index i = 0; i < layers; ++i) {
    const SublayerPlace place{.layer = i + 1,
                              .layers = layers,
                              .side = side,
                              .encoder_layers = both ? config.encoder_layer_count() : 0,
                              .decoder_layers = both ? config.decoder_layer_count() : 0};
    blocks->append(std::make_unique<Block>(config, rng.split(std::to_string(i)), place));
  }
  return blocks;
}

const TransformerConfig& validated(const TransformerConfig& config) {
  config.validate();
  expect_to_fit(estimate_memory(config));
  return config;
}

Tensor moved(const Tensor& tensor, Device device) { return tensor.defined() ? tensor.to(device) : tensor; }

Tensor counted_from(Index first, Index length) {
  Tensor result = Tensor::uninitialized({length}, DType::int32);
  auto* const data = result.output_data<std::int32_t>();
  std::iota(data, data + length, static_cast<std::int32_t>(first));
  return result;
}

}  // namespace

Transformer::Transformer(const TransformerConfig& config, const Rng& rng)
    : config_(validated(config)),
      token_embedding_(
          add_random<Embedding>("token_embedding", rng, config.vocabulary, config.dim, deviation(config))) {
  const bool both = config.kind == ModelKind::encoder_decoder;
  if (config.positions == Positions::learned) {
    position_embedding_ =
        &add_random<Embedding>("position_embedding", rng, config.context, config.dim, deviation(config));
  }
  if (config.positions == Positions::sinusoidal) sinusoids_ = sinusoidal_positions(config.context, config.dim);
  if (config.embedding_norm) embedding_norm_ = &add("embedding_norm", make_norm(config.norm_config()));
  if (config.dropout > 0.0) {
    embedding_dropout_ = &add("embedding_dropout", std::make_unique<Dropout>(config.dropout));
  }
  if (both) {
    encoder_blocks_ = &add("encoder_blocks", make_blocks(config, Side::encoder, rng.split("encoder_blocks")));
    if (config.has_final_norm()) encoder_norm_ = &add("encoder_norm", make_norm(config.norm_config()));
  }
  positions_ = counted_from(0, config.context);
  blocks_ = &add("blocks", make_blocks(config, both ? Side::decoder : Side::alone, rng.split("blocks")));
  if (config.has_final_norm()) final_norm_ = &add("final_norm", make_norm(config.norm_config()));
  if (config.head_transform) {
    head_transform_ = &add_random<Linear>("head_transform", rng, config.dim, config.dim,
                                          LinearOptions{.bias = config.bias, .initialization = config.initialization});
    head_norm_ = &add("head_norm", make_norm(config.norm_config()));
  }
  if (!config.tied_embedding) {
    head_ = &add_random<Linear>("head", rng, config.dim, config.vocabulary,
                                LinearOptions{.bias = false, .initialization = config.initialization});
  }
  if (config.head_bias) head_bias_ = &add_parameter("head_bias", zeros({config.vocabulary}));
  Transformer::to(config.dtype);
}

Var Transformer::operator()(Tape& tape, const ModelInput& input, SourceLine line) {
  const Pass pass = begin_pass(tape, input, line);
  return unembed(stack(embed(tape, input.tokens, pass, line), pass), pass);
}

Var Transformer::operator()(Tape& tape, const ModelInput& input, KeyValueCache& cache, SourceLine line) {
  const Pass pass = begin_pass(tape, input, cache, line);
  return unembed(stack(embed(tape, input.tokens, pass, line), pass), pass);
}

Var Transformer::embed(Tape& tape, const Tensor& tokens, const Pass& pass, SourceLine line) {
  const Site site{tape, line};
  expect(tokens.defined(), site, "transformer: expected tokens [batch, time], got an undefined tensor");
  expect(tokens.rank() == 2, site, "transformer: expected tokens [batch, time], got {}", tokens.shape());
  const Index length = tokens.dim(1), first_position = pass.first_position;
  expect(length > 0, site, "transformer: a sequence needs at least one token, got none");
  expect(first_position >= 0 && first_position + length <= config_.context, site,
         "transformer: the sequences have {} tokens, but the context is {}", first_position + length, config_.context);

  Var x = token_embedding_(tape, tokens.to(device()), line);  // [B, T, dim]
  if (config_.scaled_embedding) x = affine(x, std::sqrt(static_cast<double>(config_.dim)), 0.0, line);
  const Tensor at = positions_of(first_position, length);
  if (position_embedding_ != nullptr) x = x + (*position_embedding_)(tape, at, line);  // [T, dim] beside every sequence
  if (sinusoids_.defined()) x = x + embedding(tape.constant(sinusoids_, "sinusoids", line), at, line);
  x = jnorm::to(x, config_.activation_dtype(), line);
  if (embedding_norm_ != nullptr) x = (*embedding_norm_)(x, pass, line);
  if (embedding_dropout_ != nullptr) x = (*embedding_dropout_)(x, pass, line);
  return begin_streams(x);
}

Var Transformer::begin_streams(const Var& embedded) {
  return config_.placement.two_streams ? concat({embedded, embedded}, -1) : embedded;
}

// The sum of both streams, the second one normalized (Xie et al. 2023), or the one stream, normalized.
Var Transformer::end_streams(const Var& x, Layer* norm, const Pass& pass) const {
  const auto normalized = [&](const Var& each) { return norm != nullptr ? (*norm)(each, pass) : each; };
  if (!config_.placement.two_streams) return normalized(x);
  return slice(x, -1, {.stop = config_.dim}) + normalized(slice(x, -1, {.start = config_.dim}));
}

Pass Transformer::begin_pass(Tape& tape, const ModelInput& input, SourceLine line) {
  const Site site{tape, line};
  const bool encodes = encoder_blocks_ != nullptr;
  expect(encodes || !input.source.defined(), site, "transformer: got a source, but a model of kind {} has no encoder",
         to_string(config_.kind));
  expect(!encodes || input.source.defined(), site, "transformer: expected a source for the encoder, got none");
  Pass pass{.mask = moved(input.mask, device())};
  if (encodes) {
    pass.memory = encode(tape, input, line);
    pass.memory_mask = moved(input.source_mask, device());
  }
  return pass;
}

Pass Transformer::begin_pass(Tape& tape, const ModelInput& input, KeyValueCache& cache, SourceLine line) {
  const Site site{tape, line};
  expect(config_.kind != ModelKind::encoder, site,
         "transformer: a cache is for decoders, which see no later token, but "
         "the model is an encoder");
  expect(!training(), site, "transformer: a cache is for evaluation, but the model is in training mode");
  expect(!input.mask.defined(), site,
         "transformer: a cache holds sequences of one length, so the tokens can't have a "
         "mask");
  expect(cache.length() == 0 || !input.source.defined(), site,
         "transformer: the source belongs to the first tokens, but the cache has seen {}; clear it for another source",
         cache.length());
  Pass pass{.memory_mask = cache.memory_mask(), .first_position = cache.length()};
  if (cache.length() == 0) {
    pass = begin_pass(tape, input, line);
    cache.keep_memory_mask(pass.memory_mask);
  }
  pass.cache = &cache;
  return pass;
}

Var Transformer::encode(Tape& tape, const ModelInput& input, SourceLine line) {
  const Pass pass{.mask = moved(input.source_mask, device())};
  const Var encoded = (*encoder_blocks_)(embed(tape, input.source, pass, line), pass, line);
  return end_streams(encoded, encoder_norm_, pass);
}

Var Transformer::stack(const Var& x, const Pass& pass) {
  const Var y = (*blocks_)(x, pass);
  if (pass.cache != nullptr) pass.cache->advance(x.dim(1));
  return y;
}

Var Transformer::final_hidden(const Var& x, const Pass& pass) { return end_streams(x, final_norm_, pass); }

// Logits are of the weights' dtype, also where activations are narrower: a loss needs their digits.
Var Transformer::unembed(const Var& x, const Pass& pass) {
  Var hidden = final_hidden(x, pass);
  if (head_transform_ != nullptr) {
    hidden = (*head_norm_)(activate(config_.activation, (*head_transform_)(hidden, pass)), pass);
  }
  const SourceLine line = SourceLine::here();
  Var logits =
      head_ != nullptr ? (*head_)(hidden, pass) : linear(hidden, parameter_for(hidden, token_embedding_.table(), line));
  logits = jnorm::to(logits, config_.dtype);
  return head_bias_ != nullptr ? logits + parameter_for(logits, *head_bias_, line) : logits;
}

void Transformer::to(DType dtype) {
  Module::to(dtype);
  config_.dtype = dtype;
  if (sinusoids_.defined()) sinusoids_ = sinusoidal_positions(config_.context, config_.dim, dtype).to(device());
}

void Transformer::to(Device device) {
  Module::to(device);
  sinusoids_ = moved(sinusoids_, device);
  positions_ = positions_.to(device);
}

Tensor Transformer::positions_of(Index first, Index length) const {
  return first == 0 ? positions_.first_rows(length) : counted_from(first, length).to(device());
}

}  // namespace jnorm
