#include <jnorm/layers/block.hpp>

#include <jnorm/layers/attention.hpp>

namespace jnorm {

namespace {

using Branch = SublayerPlace::Branch;

const char* name_of_branch(Branch branch) {
  switch (branch) {
    case Branch::attention: return "attention";
    case Branch::cross_attention: return "cross_attention";
    case Branch::feed_forward: break;
  }
  return "ffn";
}

std::unique_ptr<Layer> make_attention(const TransformerConfig& config, const SublayerPlace& place,
                                      const ResidualRule& rule, const BranchGains& gains, const Rng& rng) {
  const bool encodes = config.kind == ModelKind::encoder || place.side == SublayerPlace::Side::encoder;
  AttentionConfig attention{.dim = config.dim,
                            .heads = config.heads,
                            .key_heads = config.key_head_count(),
                            .head_dim = config.head_dim,
                            .causal = !encodes,
                            .cross = place.branch == Branch::cross_attention,
                            .query_key_value_bias = config.has_qkv_bias(),
                            .output_bias = config.bias,
                            .norm_values = rule.norm_heads,
                            .initialization = config.initialization,
                            .gains = gains};
  if (config.positions == Positions::rotary) attention.rotary_base = config.rotary_base;
  if (config.has_qk_norm() || rule.norm_heads) attention.head_norm = config.head_norm_config();
  return std::make_unique<Attention>(attention, rng);
}

std::unique_ptr<Layer> make_feed_forward(const TransformerConfig& config, const BranchGains& gains, const Rng& rng) {
  return std::make_unique<FeedForward>(FeedForwardConfig{.dim = config.dim,
                                                         .ffn = config.ffn_width(),
                                                         .activation = config.activation,
                                                         .gated = config.gated,
                                                         .bias = config.bias,
                                                         .initialization = config.initialization,
                                                         .gains = gains},
                                       rng);
}

std::unique_ptr<ResidualSublayer> make_sublayer(const TransformerConfig& config, const SublayerPlace& place,
                                                const Rng& rng) {
  const ResidualRule rule = config.rule(place);
  const BranchGains gains = starting_gains(config.initialization, place, rule.starting_gains);
  std::unique_ptr<Layer> branch = place.branch == Branch::feed_forward
                                      ? make_feed_forward(config, gains, rng)
                                      : make_attention(config, place, rule, gains, rng);
  return std::make_unique<ResidualSublayer>(rule, config.norm_config(), std::move(branch), config.dropout);
}

}  // namespace

Block::Block(const TransformerConfig& config, const Rng& rng, SublayerPlace place) {
  for (const Branch branch : {Branch::attention, Branch::cross_attention, Branch::feed_forward}) {
    if (branch == Branch::cross_attention && place.side != SublayerPlace::Side::decoder) continue;
    place.branch = branch;
    const char* const name = name_of_branch(branch);
    sublayers_.push_back(&add(name, make_sublayer(config, place, rng.split(name))));
  }
}

Var Block::forward(const Var& x, const Pass& pass, SourceLine /*line*/) {
  Pass inner = pass;
  inner.block_input = x;
  Var y = x;
  for (ResidualSublayer* sublayer : sublayers_) y = (*sublayer)(y, inner);
  return y;
}

}  // namespace jnorm
