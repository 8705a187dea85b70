#include <jnorm/layers/attention.hpp>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/expect.hpp>
#include <jnorm/layers/key_value_cache.hpp>

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

void expect_no_gradients(const Var& computed) {
  if (!computed.tape().node(computed.index()).needs_gradient) return;
  fail(ErrorKind::state, "attention: a cache keeps values and no gradients; call the model under NoRecord");
}

Var exchange_first_axes(const Var& x) {
  constexpr int order[] = {1, 0, 2};
  return permute(x, order);
}

// [B, T, heads width] -> [1, T, B heads width], and back
Var sequences_as_heads(const Var& x) {
  return x.dim(0) == 1 ? x : reshape(exchange_first_axes(x), {1, x.dim(1), x.dim(0) * x.dim(2)});
}
Var heads_as_sequences(const Var& x, const Shape& shape) {
  return shape[0] == 1 ? x : exchange_first_axes(reshape(x, {shape[1], shape[0], shape[2]}));
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
  const Var q = rotated(normalized(query_norm_, query_(x), pass), config_.heads, pass);
  return output_(config_.cross ? attend_to_memory(q, pass) : attend(x, q, pass));
}

Attention::KeysAndValues Attention::keys_and_values(const Var& source, const Pass& pass) {
  return {.keys = rotated(normalized(key_norm_, key_(source), pass), config_.key_head_count(), pass),
          .values = normalized(value_norm_, value_(source), pass)};
}

Var Attention::attend(const Var& x, const Var& q, const Pass& pass) {
  if (pass.cache != nullptr) return attend_to_cache(x, q, pass);
  const auto [k, v] = keys_and_values(x, pass);
  return attention(q, k, v, config_.heads,
                   {.causal = config_.causal, .key_mask = pass.mask, .key_heads = config_.key_head_count()});
}

Var Attention::attend_to_memory(const Var& q, const Pass& pass) {
  const AttentionOptions options{.key_mask = pass.memory_mask, .key_heads = config_.key_head_count()};
  if (pass.cache != nullptr && !pass.memory.defined()) {
    const auto& [keys, values] = pass.cache->memory(*this);
    return attention(q, q.tape().constant(keys, "keys"), q.tape().constant(values, "values"), config_.heads, options);
  }
  expect(pass.memory.defined(), "attention: cross-attention needs an encoder's output in the pass");
  const auto [k, v] = keys_and_values(pass.memory, pass);
  if (pass.cache != nullptr) {
    expect_no_gradients(k);
    pass.cache->keep_memory(*this, k.value(), v.value());
  }
  return attention(q, k, v, config_.heads, options);
}

// In the cache, and here, the sequences of a batch are more heads of one sequence.
Var Attention::attend_to_cache(const Var& x, const Var& q, const Pass& pass) {
  expect(!pass.mask.defined(), "attention: a cache holds sequences of one length, so no position can be masked");
  const Index batch = q.dim(0), length = q.dim(1);
  const auto [k, v] = keys_and_values(x, pass);
  expect_no_gradients(k);
  const auto [keys, values] = pass.cache->append(*this, sequences_as_heads(k).value(), sequences_as_heads(v).value());
  const Var y =
      attention(sequences_as_heads(q), q.tape().constant(keys, "keys"), q.tape().constant(values, "values"),
                batch * config_.heads, {.causal = config_.causal, .key_heads = batch * config_.key_head_count()});
  return heads_as_sequences(y, {batch, length, config_.heads * config_.head_width()});
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
