#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <jnorm/core/dtype.hpp>
#include <jnorm/layers/architecture.hpp>
#include <jnorm/layers/attention.hpp>
#include <jnorm/layers/feed_forward.hpp>
#include <jnorm/layers/initialization.hpp>
#include <jnorm/layers/norm.hpp>
#include <jnorm/layers/placement.hpp>
#include <jnorm/layers/positions.hpp>

namespace jnorm {

// Which stacks a model has, and so what it is trained to say.
enum class ModelKind {
  decoder,          // the next token, from the earlier ones
  encoder,          // tokens that were masked, from all others
  encoder_decoder,  // the next token, from the earlier ones and an encoded source
};

std::string to_string(ModelKind kind);
ModelKind model_kind_from_string(std::string_view name);  // throws Error(argument) that lists the names
const std::vector<ModelKind>& model_kinds();

// How activations are stored; weights, their gradients and all statistics keep the model's dtype.
enum class Precision { full, bfloat16, float16 };

std::string to_string(Precision precision);
Precision precision_from_string(std::string_view name);  // throws Error(argument) that lists the names
const std::vector<Precision>& precisions();

// A model, completely. What is unset follows from the rest.
struct TransformerConfig {
  Architecture architecture = Architecture::plain;  // which set of defaults this began with
  ModelKind kind = ModelKind::decoder;

  Index vocabulary = 256;  // bytes
  Index layers = 6;        // of the decoder, and of the encoder unless encoder_layers says otherwise
  Index encoder_layers = 0;
  Index dim = 64;  // the width of the residual stream
  Index heads = 4;
  Index key_heads = 0;  // 0: as many as heads, or half as many with grouped_queries
  Index head_dim = 0;   // 0: dim / heads
  Index ffn = 0;        // the inner width of the feed-forward branch; 0: 4 dim, or of a gated one about 8/3 dim
  Index context = 64;   // the most positions that a sequence may have

  Placement placement = Placement::pre;
  std::optional<double> residual_scale = std::nullopt;  // in place of the placement's alpha
  std::optional<bool> final_norm = std::nullopt;        // unset: what the placement says
  std::optional<bool> qk_norm = std::nullopt;           // unset: what the placement says
  bool embedding_norm = false;                          // of x_0

  NormKind norm = NormKind::layer;
  double eps = kNormEps;
  bool norm_affine = true;                      // gamma and beta
  Index norm_groups = 4;                        // of group
  double norm_fraction = 1.0;                   // of rms
  double norm_momentum = BatchNorm::kMomentum;  // of batch

  Activation activation = Activation::relu;
  bool gated = false;
  bool bias = true;                             // of all linear maps but the head
  std::optional<bool> qkv_bias = std::nullopt;  // unset: as bias
  bool grouped_queries = false;

  Positions positions = Positions::learned;
  double rotary_base = 10000.0;
  bool scaled_embedding = false;  // tokens' embeddings are multiplied by sqrt(dim)
  bool tied_embedding = false;    // the head's weight is the table of the tokens' embeddings
  bool head_bias = false;
  bool head_transform = false;  // a linear map, the activation and a norm before the head

  double dropout = 0.0;  // of embeddings and of what the branches add
  Initialization initialization = Initialization::xavier;
  DType dtype = DType::float32;  // of the parameters, and of all arithmetic in full precision
  Precision precision = Precision::full;

  bool has_final_norm() const { return final_norm.value_or(placement.final_norm); }
  bool has_qk_norm() const { return qk_norm.value_or(placement.qk_norm); }
  bool has_qkv_bias() const { return qkv_bias.value_or(bias); }
  Index ffn_width() const;
  Index key_head_count() const;
  Index head_width() const { return head_dim == 0 ? dim / heads : head_dim; }
  Index encoder_layer_count() const;  // 0 of a decoder, `layers` of an encoder
  Index decoder_layer_count() const;  // 0 of an encoder
  Index stream_width() const { return placement.two_streams ? 2 * dim : dim; }
  DType activation_dtype() const;
  NormConfig norm_config() const;
  // Of queries and keys, over a head's features: LayerNorm beside LayerNorm (Dehghani et al. 2023), RMSNorm beside any
  // other norm, as in Qwen 3. (OLMo 2 takes it over all heads together.)
  NormConfig head_norm_config() const;
  // How a sublayer joins the stream: the placement's rule with this configuration's residual_scale.
  ResidualRule rule(const SublayerPlace& place) const;

  // Throws Error(argument), one line: "heads: 5 don't divide dim 64".
  void validate() const;

  friend bool operator==(const TransformerConfig&, const TransformerConfig&) = default;
};

}  // namespace jnorm
