#include <jnorm/layers/attention.hpp>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

Index checked_heads(const AttentionConfig& config) {
  expect(config.heads > 0, "attention: heads must be positive, got {}", config.heads);
  expect(config.dim % config.heads == 0, "attention: {} heads don't divide dim {}", config.heads, config.dim);
  return config.heads;
}

}  // namespace

Attention::Attention(const AttentionConfig& config, const Rng& rng)
    : heads_(checked_heads(config)),
      query_(add_random<Linear>("query", rng, config.dim, config.dim, LinearOptions{true, config.initialization})),
      key_(add_random<Linear>("key", rng, config.dim, config.dim, LinearOptions{true, config.initialization})),
      value_(add_random<Linear>("value", rng, config.dim, config.dim, LinearOptions{true, config.initialization})),
      output_(add_random<Linear>("output", rng, config.dim, config.dim, LinearOptions{true, config.initialization})) {}

Var Attention::forward(const Var& x, SourceLine /*line*/) {
  const Var q = query_(x);
  const Var k = key_(x);
  const Var v = value_(x);
  return output_(causal_attention(q, k, v, heads_));
}

}  // namespace jnorm
