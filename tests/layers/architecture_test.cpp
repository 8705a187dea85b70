#include <jnorm/layers/architecture.hpp>

#include <doctest/doctest.h>

#include <jnorm/core/error.hpp>
#include <jnorm/layers/transformer_config.hpp>

using namespace jnorm;

TEST_CASE("architecture: plain is what a configuration is without one") {
  CHECK(default_config(Architecture::plain) == TransformerConfig{});
}

TEST_CASE("architecture: vanilla is Post-LayerNorm, encoder and decoder, sinusoidal positions, scaled embeddings") {
  const TransformerConfig config = default_config(Architecture::vanilla);
  CHECK(config.kind == ModelKind::encoder_decoder);
  CHECK(config.placement == Placement::post);
  CHECK(config.norm == NormKind::layer);
  CHECK_FALSE(config.has_final_norm());
  CHECK(config.positions == Positions::sinusoidal);
  CHECK(config.scaled_embedding);
  CHECK(config.tied_embedding);
  CHECK(config.activation == Activation::relu);
  CHECK(config.ffn_width() == 4 * config.dim);
}

TEST_CASE("architecture: bert is a Post-LayerNorm encoder with eps 1e-12, GELU, and a transform before its head") {
  const TransformerConfig config = default_config(Architecture::bert);
  CHECK(config.kind == ModelKind::encoder);
  CHECK(config.placement == Placement::post);
  CHECK(config.eps == 1e-12);
  CHECK(config.embedding_norm);
  CHECK(config.activation == Activation::gelu);
  CHECK(config.positions == Positions::learned);
  CHECK(config.head_transform);
  CHECK(config.head_bias);
  CHECK(config.tied_embedding);
}

TEST_CASE("architecture: gpt2 is a Pre-LayerNorm decoder with learned positions, tanh GELU and a tied head") {
  const TransformerConfig config = default_config(Architecture::gpt2);
  CHECK(config.kind == ModelKind::decoder);
  CHECK(config.placement == Placement::pre);
  CHECK(config.has_final_norm());
  CHECK(config.positions == Positions::learned);
  CHECK(config.activation == Activation::gelu_tanh);
  CHECK(config.tied_embedding);
  CHECK(config.bias);
  CHECK(config.initialization == Initialization::gpt2);
}

TEST_CASE("architecture: llama is a Pre-RMSNorm decoder with rotary positions, SwiGLU, grouped queries, no biases") {
  const TransformerConfig config = default_config(Architecture::llama);
  CHECK(config.placement == Placement::pre);
  CHECK(config.norm == NormKind::rms);
  CHECK(config.positions == Positions::rotary);
  CHECK(config.gated);
  CHECK(config.activation == Activation::silu);
  CHECK(config.key_head_count() == 2);
  CHECK_FALSE(config.bias);
  CHECK_FALSE(config.has_qkv_bias());
  CHECK_FALSE(config.has_qk_norm());
  CHECK_FALSE(config.tied_embedding);
}

TEST_CASE("architecture: qwen is llama with normalized queries and keys, a larger base and a tied head") {
  const TransformerConfig config = default_config(Architecture::qwen);
  CHECK(config.norm == NormKind::rms);
  CHECK(config.eps == 1e-6);
  CHECK(config.has_qk_norm());
  CHECK(config.rotary_base == 1e6);
  CHECK(config.tied_embedding);
  CHECK(config.gated);
}

TEST_CASE("architecture: every one has defaults that make a valid model") {
  for (const Architecture each : architectures()) {
    CHECK(default_config(each).architecture == each);
    CHECK_NOTHROW(default_config(each).validate());
  }
}

TEST_CASE("architecture: it leaves sizes, dropout and dtype as they are, and decides all else") {
  TransformerConfig config{.vocabulary = 7, .layers = 3, .dim = 32, .heads = 8, .context = 5};
  config.dropout = 0.25;
  config.dtype = DType::float64;
  config.norm = NormKind::batch;
  config.gated = true;
  apply_architecture(config, Architecture::gpt2);
  CHECK(config.vocabulary == 7);
  CHECK(config.layers == 3);
  CHECK(config.dim == 32);
  CHECK(config.heads == 8);
  CHECK(config.context == 5);
  CHECK(config.dropout == 0.25);
  CHECK(config.dtype == DType::float64);
  CHECK(config.norm == NormKind::layer);
  CHECK_FALSE(config.gated);
}

TEST_CASE("architecture: names go both ways, and an unknown one is told the nearest") {
  for (const Architecture each : architectures()) CHECK(architecture_from_string(to_string(each)) == each);
  CHECK_THROWS_WITH_AS(architecture_from_string("lama"), doctest::Contains("did you mean llama?"), Error);
}
