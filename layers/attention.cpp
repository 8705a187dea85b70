#include <jnorm/layers/attention.hpp>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

AttentionConfig checked(const AttentionConfig& config) {
  expect(config.heads > 0, "attention: heads must be positive, got {}", config.heads);
  expect(config.head_dim >= 0, "attention: the width of a head must not be negative, got {}", config.head_dim);
  expect(config.head_dim > 0 || config.dim % config.heads == 0, "attention: {} heads don't divide dim {}", config.heads,
         config.dim);
  expect(config.key_head_count() > 0 && config.heads % config.key_head_count() == 0,
         "attention: {} key heads don't divide {} heads", config.key_heads, config.heads);
  return config;
}

std::unique_ptr<Layer> make_head_norm(const AttentionConfig& config) {
  NormConfig norm = *config.head_norm;
  norm.dim = config.head_width();
  return make_norm(norm);
}

}  // namespace

Attention::Attention(const AttentionConfig& config, const Rng& rng)
    : config_(checked(config)),
      query_(add_map("query", rng, config.dim, config.heads * config.head_width(), config.query_key_value_bias, 1.0)),
      key_(add_map("key", rng, config.dim, config.key_head_count() * config.head_width(), config.query_key_value_bias,
                   1.0)),
      value_(add_map("value", rng, config.dim, config.key_head_count() * config.head_width(),
                     config.query_key_value_bias, config.gains.inner)),
      output_(add_map("output", rng, config.heads * config.head_width(), config.dim, config.output_bias,
                      config.gains.output)) {
  if (!config.head_norm) return;
  query_norm_ = &add("query_norm", make_head_norm(config));
  key_norm_ = &add("key_norm", make_head_norm(config));
  if (config.norm_values) value_norm_ = &add("value_norm", make_head_norm(config));
}

Linear& Attention::add_map(const char* name, const Rng& rng, Index in, Index out, bool bias, double gain) {
  return add_random<Linear>(name, rng, in, out,
                            LinearOptions{.bias = bias, .initialization = config_.initialization, .gain = gain});
}

Var Attention::forward(const Var& x, const Pass& pass, SourceLine /*line*/) {
  expect(!config_.cross || pass.memory.defined(), "attention: cross-attention needs an encoder's output in the pass");
  const Var& source = config_.cross ? pass.memory : x;
  const Tensor& mask = config_.cross ? pass.memory_mask : pass.mask;
  const Var q = rotated(normalized(query_norm_, query_(x), pass), config_.heads, pass);
  const Var k = rotated(normalized(key_norm_, key_(source), pass), config_.key_head_count(), pass);
  const Var v = normalized(value_norm_, value_(source), pass);
  return output_(
      attention(q, k, v, config_.heads,
                {.causal = config_.causal && !config_.cross, .key_mask = mask, .key_heads = config_.key_head_count()}));
}

Var Attention::normalized(Layer* norm, const Var& x, const Pass& pass) const {
  if (norm == nullptr) return x;
  const Index width = config_.head_width();
  const Var heads = reshape(x, {x.dim(0), x.dim(1), x.dim(2) / width, width});  // [B, T, heads, width]
  return reshape((*norm)(heads, pass), x.shape());
}

Var Attention::rotated(const Var& x, Index heads, const Pass& pass) const {
  if (!config_.rotary_base || config_.cross) return x;
  return rotary(x, heads, {.base = *config_.rotary_base, .first_position = pass.first_position});
}

}  // namespace jnorm
