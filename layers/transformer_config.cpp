#include <jnorm/layers/transformer_config.hpp>

#include <cmath>

#include <jnorm/layers/names.hpp>

namespace jnorm {

namespace {

constexpr Named<ModelKind> kKinds[] = {
    {"decoder", ModelKind::decoder}, {"encoder", ModelKind::encoder}, {"encoder_decoder", ModelKind::encoder_decoder}};

constexpr Named<Precision> kPrecisions[] = {
    {"full", Precision::full}, {"bfloat16", Precision::bfloat16}, {"float16", Precision::float16}};

constexpr Index kLargestSize = Index{1} << 31;  // tokens and positions are int32; 4 dim^2 must fit into 64 bits

void expect_size(const char* name, Index size) {
  expect(size > 0 && size < kLargestSize, "{}: expected a positive size below 2^31, got {}", name, size);
}

void expect_size_or_0(const char* name, Index size, const char* meaning_of_0) {
  expect(size >= 0 && size < kLargestSize, "{}: expected a positive size below 2^31, or 0 for {}, got {}", name,
         meaning_of_0, size);
}

void validate_sizes(const TransformerConfig& config) {
  expect_size("vocabulary", config.vocabulary);
  expect_size("layers", config.layers);
  expect_size_or_0("encoder-layers", config.encoder_layers, "as many as layers");
  expect_size("dim", config.dim);
  expect_size("heads", config.heads);
  expect_size("context", config.context);
  expect_size_or_0("ffn", config.ffn, config.gated ? "8/3 dim" : "4 dim");
  expect_size_or_0("key-heads", config.key_heads, "the usual number");
  expect_size_or_0("head-dim", config.head_dim, "dim / heads");
  expect(config.head_dim > 0 || config.dim % config.heads == 0, "heads: {} don't divide dim {}", config.heads,
         config.dim);
  expect(config.heads % config.key_head_count() == 0, "key-heads: {} don't divide heads {}", config.key_heads,
         config.heads);
  expect(config.positions != Positions::rotary || config.head_width() % 2 == 0,
         "positions: rotary ones rotate pairs of features, so a head's width must be even, but it is {}",
         config.head_width());
}

void validate_norm(const TransformerConfig& config) {
  expect(config.eps >= 0.0 && std::isfinite(config.eps), "eps: expected a finite number that isn't negative, got {}",
         config.eps);
  expect(config.norm_groups > 0, "norm-groups: expected a positive number, got {}", config.norm_groups);
  expect(config.norm != NormKind::group || config.dim % config.norm_groups == 0, "norm-groups: {} don't divide dim {}",
         config.norm_groups, config.dim);
  expect(config.norm_fraction > 0.0 && config.norm_fraction <= 1.0,
         "norm-fraction: expected a number in (0, 1], got {}", config.norm_fraction);
  expect(config.norm_fraction == 1.0 || config.norm == NormKind::rms,
         "norm-fraction: only rms can look at a part of the features, but the norm is {}", to_string(config.norm));
  expect(config.norm_momentum >= 0.0 && config.norm_momentum <= 1.0,
         "norm-momentum: expected a number in [0, 1], got {}", config.norm_momentum);
}

}  // namespace

std::string to_string(ModelKind kind) { return name_of(kKinds, kind); }
ModelKind model_kind_from_string(std::string_view name) { return value_named("kind", kKinds, name); }
const std::vector<ModelKind>& model_kinds() {
  static const std::vector<ModelKind> all = values_of(kKinds);
  return all;
}

std::string to_string(Precision precision) { return name_of(kPrecisions, precision); }
Precision precision_from_string(std::string_view name) { return value_named("precision", kPrecisions, name); }
const std::vector<Precision>& precisions() {
  static const std::vector<Precision> all = values_of(kPrecisions);
  return all;
}

// With 8/3 dim a gated branch, of three matrices, has as many weights as an ungated one of two with 4 dim (Shazeer
// 2020); rounded up to a multiple of 8.
Index TransformerConfig::ffn_width() const {
  if (ffn != 0) return ffn;
  if (!gated) return 4 * dim;
  const Index exact = (8 * dim + 2) / 3;
  return (exact + 7) / 8 * 8;
}

Index TransformerConfig::key_head_count() const {
  if (key_heads != 0) return key_heads;
  return grouped_queries && heads % 2 == 0 ? heads / 2 : heads;
}

Index TransformerConfig::encoder_layer_count() const {
  if (kind == ModelKind::decoder) return 0;
  return kind == ModelKind::encoder_decoder && encoder_layers != 0 ? encoder_layers : layers;
}

Index TransformerConfig::decoder_layer_count() const { return kind == ModelKind::encoder ? 0 : layers; }

DType TransformerConfig::activation_dtype() const {
  switch (precision) {
    case Precision::full: break;
    case Precision::bfloat16: return DType::bfloat16;
    case Precision::float16: return DType::float16;
  }
  return dtype;
}

NormConfig TransformerConfig::norm_config() const {
  return {.kind = norm,
          .dim = dim,
          .eps = eps,
          .affine = norm_affine,
          .groups = norm_groups,
          .fraction = norm_fraction,
          .momentum = norm_momentum};
}

NormConfig TransformerConfig::head_norm_config() const {
  return {.kind = norm == NormKind::layer ? NormKind::layer : NormKind::rms,
          .dim = head_width(),
          .eps = eps,
          .affine = norm_affine};
}

ResidualRule TransformerConfig::rule(const SublayerPlace& place) const {
  ResidualRule rule = placement.rule(place);
  if (residual_scale) rule.skip_scale = *residual_scale;
  return rule;
}

void TransformerConfig::validate() const {
  validate_sizes(*this);
  validate_norm(*this);
  expect(!residual_scale || std::isfinite(*residual_scale), "residual-scale: expected a finite number, got {}",
         residual_scale.value_or(0.0));
  expect(rotary_base >= 1.0 && std::isfinite(rotary_base),
         "rotary-base: expected a finite number of at least 1, got {}", rotary_base);
  expect(dropout >= 0.0 && dropout < 1.0, "dropout: expected a number in [0, 1), got {}", dropout);
  expect(dtype == DType::float32 || dtype == DType::float64, "dtype: expected float32 or float64, got {}", dtype);
  expect(precision == Precision::full || dtype == DType::float32,
         "precision: {} activations need weights of float32, got {}", to_string(precision), dtype);
}

}  // namespace jnorm
