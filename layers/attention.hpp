#pragma once

#include <optional>

#include <jnorm/layers/linear.hpp>
#include <jnorm/layers/norm.hpp>

namespace jnorm {

struct AttentionConfig {
  Index dim = 64;
  Index heads = 4;
  Index key_heads = 0;  // of keys and values, each of which serves heads / key_heads query heads; 0: as many as heads
  Index head_dim = 0;   // the width of a head; 0: dim / heads
  bool causal = true;   // a position sees itself and the earlier ones
  bool cross = false;   // keys and values come from the pass's memory, and no mask is causal
  bool query_key_value_bias = true;
  bool output_bias = true;
  std::optional<double> rotary_base = std::nullopt;    // rotates queries and keys by their positions
  std::optional<NormConfig> head_norm = std::nullopt;  // normalizes each head's queries and keys (its dim is ignored)
  bool norm_values = false;                            // and the values
  Initialization initialization = Initialization::xavier;
  BranchGains gains = {};

  Index head_width() const { return head_dim == 0 ? dim / heads : head_dim; }
  Index key_head_count() const { return key_heads == 0 ? heads : key_heads; }
};

// Multi-head attention, [B, T, dim] -> [B, T, dim]: linear maps to queries, keys and values, attention in each head,
// and a linear map of the heads' outputs side by side (Vaswani et al. 2017). Groups of query heads may share their keys
// and values (Ainslie et al. 2023). Positions that the pass masks are seen by none. Children: query, key, value,
// output; if heads are normalized, query_norm, key_norm and value_norm.
//
// With a cache in the pass, the keys are those of the cache and of x. Then the pass must mask nothing
// (Error(argument)), and be without gradients (Error(state)).
class Attention : public Layer {
 public:
  // Throws Error(argument) unless the heads divide the width, and the key heads the heads.
  Attention(const AttentionConfig& config, const Rng& rng);

 protected:
  Var forward(const Var& x, const Pass& pass, SourceLine line) override;

 private:
  struct KeysAndValues {
    Var keys;
    Var values;
  };

  Linear& add_map(const char* name, const Rng& rng, Index in, Index out, bool bias, double gain);
  // Normalizes each head if there is a norm, [B, T, heads width] -> the same.
  Var normalized(Layer* norm, const Var& x, const Pass& pass) const;
  Var rotated(const Var& x, Index heads, const Pass& pass) const;
  KeysAndValues keys_and_values(const Var& source, const Pass& pass);  // [B, T, dim] -> [B, T, key_heads width] each
  Var attend(const Var& x, const Var& q, const Pass& pass);            // -> [B, Tq, heads width]
  Var attend_to_memory(const Var& q, const Pass& pass);
  Var attend_to_cache(const Var& x, const Var& q, const Pass& pass);

  AttentionConfig config_;
  Linear& query_;
  Linear& key_;
  Linear& value_;
  Linear& output_;
  Layer* query_norm_ = nullptr;
  Layer* key_norm_ = nullptr;
  Layer* value_norm_ = nullptr;
};

}  // namespace jnorm
