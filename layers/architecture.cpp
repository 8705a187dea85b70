#include <jnorm/layers/architecture.hpp>

#include <jnorm/layers/names.hpp>
#include <jnorm/layers/transformer_config.hpp>

namespace jnorm {

namespace {

constexpr Named<Architecture> kArchitectures[] = {{"plain", Architecture::plain}, {"vanilla", Architecture::vanilla},
                                                  {"bert", Architecture::bert},   {"gpt2", Architecture::gpt2},
                                                  {"llama", Architecture::llama}, {"qwen", Architecture::qwen}};

void make_vanilla(TransformerConfig& config) {
  config.kind = ModelKind::encoder_decoder;
  config.placement = Placement::post;
  config.positions = Positions::sinusoidal;
  config.scaled_embedding = true;
  config.tied_embedding = true;
}

void make_bert(TransformerConfig& config) {
  config.kind = ModelKind::encoder;
  config.placement = Placement::post;
  config.eps = 1e-12;
  config.embedding_norm = true;
  config.activation = Activation::gelu;
  config.tied_embedding = true;
  config.head_transform = true;
  config.head_bias = true;
  config.initialization = Initialization::gpt2;  // BERT's weights start with 0.02 too
}

void make_gpt2(TransformerConfig& config) {
  config.activation = Activation::gelu_tanh;
  config.tied_embedding = true;
  config.initialization = Initialization::gpt2;
}

void make_llama(TransformerConfig& config) {
  config.norm = NormKind::rms;
  config.activation = Activation::silu;
  config.gated = true;
  config.bias = false;
  config.grouped_queries = true;
  config.positions = Positions::rotary;
}

void make_qwen(TransformerConfig& config) {
  make_llama(config);
  config.eps = 1e-6;
  config.qk_norm = true;
  config.rotary_base = 1e6;
  config.tied_embedding = true;
}

}  // namespace

std::string to_string(Architecture architecture) { return name_of(kArchitectures, architecture); }

Architecture architecture_from_string(std::string_view name) { return value_named("arch", kArchitectures, name); }

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> all = values_of(kArchitectures);
  return all;
}

void apply_architecture(TransformerConfig& config, Architecture architecture) {
  const TransformerConfig given = config;
  config = TransformerConfig{};
  config.architecture = architecture;
  config.vocabulary = given.vocabulary;
  config.layers = given.layers;
  config.encoder_layers = given.encoder_layers;
  config.dim = given.dim;
  config.heads = given.heads;
  config.context = given.context;
  config.dropout = given.dropout;
  config.dtype = given.dtype;
  config.precision = given.precision;
  switch (architecture) {
    case Architecture::plain: break;
    case Architecture::vanilla: make_vanilla(config); break;
    case Architecture::bert: make_bert(config); break;
    case Architecture::gpt2: make_gpt2(config); break;
    case Architecture::llama: make_llama(config); break;
    case Architecture::qwen: make_qwen(config); break;
  }
}

TransformerConfig default_config(Architecture architecture) {
  TransformerConfig config;
  apply_architecture(config, architecture);
  return config;
}

}  // namespace jnorm
