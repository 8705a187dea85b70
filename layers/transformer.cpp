#include <jnorm/layers/transformer.hpp>

#include <cmath>
#include <numbers>
#include <numeric>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/site.hpp>
#include <jnorm/layers/attention.hpp>

namespace jnorm {

namespace {

// Token and position embeddings of variance 1/2 each make x_0 of variance 1. That is the setting in which the block
// Jacobians are derived and measured (Xiong et al. 2020), and that of the original Transformer, whose N(0, 1/dim) rows
// are scaled by sqrt(dim). Much smaller ones, as 0.02, would leave the first blocks of a Pre-Norm model with a branch
// that outweighs x: far from the identity for a reason that has nothing to do with the placement.
constexpr double kEmbeddingDeviation = 1.0 / std::numbers::sqrt2;

std::unique_ptr<Layer> make_norm(const TransformerConfig& config) {
  return make_norm(config.norm, config.dim, config.eps);
}

std::unique_ptr<ResidualSublayer> make_sublayer(const TransformerConfig& config, std::unique_ptr<Layer> branch) {
  return std::make_unique<ResidualSublayer>(config.placement, make_norm(config), std::move(branch));
}

std::unique_ptr<Layer> make_attention(const TransformerConfig& config, const Rng& rng) {
  return std::make_unique<Attention>(
      AttentionConfig{.dim = config.dim, .heads = config.heads, .initialization = config.initialization}, rng);
}

std::unique_ptr<Layer> make_feed_forward(const TransformerConfig& config, const Rng& rng) {
  return std::make_unique<FeedForward>(FeedForwardConfig{.dim = config.dim,
                                                         .ffn = config.ffn_width(),
                                                         .activation = config.activation,
                                                         .initialization = config.initialization},
                                       rng);
}

std::unique_ptr<Sequence> make_blocks(const TransformerConfig& config, const Rng& rng) {
  auto blocks = std::make_unique<Sequence>();
  for (Index i = 0; i < config.layers; ++i) {
    blocks->append(std::make_unique<Block>(config, rng.split(std::to_string(i))));
  }
  return blocks;
}

const TransformerConfig& validated(const TransformerConfig& config) {
  config.validate();
  return config;
}

Tensor positions(Index length) {
  Tensor result = Tensor::uninitialized({length}, DType::int32);
  std::iota(result.output_data<std::int32_t>(), result.output_data<std::int32_t>() + length, 0);
  return result;
}

}  // namespace

void TransformerConfig::validate() const {
  constexpr Index largest = Index{1} << 31;  // tokens and positions are int32; 4 dim^2 must fit into 64 bits
  const auto expect_size = [&](const char* name, Index size) {
    expect(size > 0 && size < largest, "{}: expected a positive size below 2^31, got {}", name, size);
  };
  expect_size("vocabulary", vocabulary);
  expect_size("layers", layers);
  expect_size("dim", dim);
  expect_size("heads", heads);
  expect_size("context", context);
  expect(ffn >= 0 && ffn < largest, "ffn: expected a positive size below 2^31, or 0 for 4 dim, got {}", ffn);
  expect(dim % heads == 0, "heads: {} don't divide dim {}", heads, dim);
  expect(eps >= 0.0 && std::isfinite(eps), "eps: expected a finite number that isn't negative, got {}", eps);
  expect(dtype == DType::float32 || dtype == DType::float64, "dtype: expected float32 or float64, got {}", dtype);
}

Block::Block(const TransformerConfig& config, const Rng& rng)
    : attention_(add("attention", make_sublayer(config, make_attention(config, rng.split("attention"))))),
      ffn_(add("ffn", make_sublayer(config, make_feed_forward(config, rng.split("ffn"))))) {}

Var Block::forward(const Var& x, SourceLine /*line*/) { return ffn_(attention_(x)); }

Transformer::Transformer(const TransformerConfig& config, const Rng& rng)
    : config_(validated(config)),
      token_embedding_(
          add_random<Embedding>("token_embedding", rng, config.vocabulary, config.dim, kEmbeddingDeviation)),
      position_embedding_(
          add_random<Embedding>("position_embedding", rng, config.context, config.dim, kEmbeddingDeviation)),
      blocks_(add("blocks", make_blocks(config, rng.split("blocks")))) {
  if (config.has_final_norm()) final_norm_ = &add("final_norm", make_norm(config));
  head_ = &add_random<Linear>("head", rng, config.dim, config.vocabulary,
                              LinearOptions{.bias = false, .initialization = config.initialization});
  Transformer::to(config.dtype);
}

Var Transformer::operator()(Tape& tape, const Tensor& tokens, SourceLine line) {
  return unembed(stack(embed(tape, tokens, line)));
}

Var Transformer::embed(Tape& tape, const Tensor& tokens, SourceLine line) {
  const Site site{tape, line};
  expect(tokens.defined(), site, "transformer: expected tokens [batch, time], got an undefined tensor");
  expect(tokens.rank() == 2, site, "transformer: expected tokens [batch, time], got {}", tokens.shape());
  const Index length = tokens.dim(1);
  expect(length > 0, site, "transformer: a sequence needs at least one token, got none");
  expect(length <= config_.context, site, "transformer: the sequences have {} tokens, but the context is {}", length,
         config_.context);
  const Var token = token_embedding_(tape, tokens, line);                   // [B, T, dim]
  const Var position = position_embedding_(tape, positions(length), line);  // [T, dim]
  return token + position;
}

Var Transformer::stack(const Var& x) { return blocks_(x); }

Var Transformer::unembed(const Var& x) { return (*head_)(final_norm_ != nullptr ? (*final_norm_)(x) : x); }

void Transformer::to(DType dtype) {
  Module::to(dtype);
  config_.dtype = dtype;
}

}  // namespace jnorm
