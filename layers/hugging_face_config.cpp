#include <jnorm/layers/hugging_face_config.hpp>

#include <algorithm>

#include <jnorm/layers/names.hpp>
#include <nlohmann/json.hpp>

namespace jnorm {

namespace {

using Json = nlohmann::json;
using Family = HuggingFaceConfig::Family;

constexpr Named<Activation> kActivations[] = {
    {"gelu", Activation::gelu}, {"gelu_new", Activation::gelu_tanh}, {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"relu", Activation::relu}, {"silu", Activation::silu},          {"swish", Activation::silu}};

// The fields of one JSON object. One that is null is as good as left out.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  bool has(const char* name) const { return object_.contains(name) && !object_[name].is_null(); }

  Index size(const char* name) const {
    const Json& value = required(name, "a positive whole number");
    // Of a type that holds it: nlohmann's numbers convert to any other without a word.
    const bool whole = value.is_number_unsigned() && value.get<std::uint64_t>() < (std::uint64_t{1} << 31);
    if (!whole || value == 0) fail_value(name, "a positive whole number below 2^31");
    return value.get<Index>();
  }
  Index size_or(const char* name, Index otherwise) const { return has(name) ? size(name) : otherwise; }

  double number(const char* name) const {
    const Json& value = required(name, "a number");
    if (!value.is_number()) fail_value(name, "a number");
    return value.get<double>();
  }

  std::string text(const char* name) const {
    const Json& value = required(name, "a text");
    if (!value.is_string()) fail_value(name, "a text");
    return value.get<std::string>();
  }

  bool truth_or(const char* name, bool otherwise) const {
    if (!has(name)) return otherwise;
    if (!object_[name].is_boolean()) fail_value(name, "true or false");
    return object_[name].get<bool>();
  }

  Fields object(const char* name) const {
    if (!object_[name].is_object()) fail_value(name, "an object");
    return Fields(object_[name]);
  }

  // What stands there must be `only`, if anything does; otherwise `why` says what that would mean.
  void expect_only(const char* name, const Json& only, const char* why) const {
    if (!has(name) || object_[name] == only) return;
    fail(ErrorKind::argument, "{}: expected {}, got {}: {}", name, only.dump(), dumped(name), why);
  }

  std::string dumped(const char* name) const {
    std::string text = object_[name].dump(-1, ' ', true, Json::error_handler_t::replace);
    constexpr std::size_t longest = 100;
    return text.size() > longest ? text.substr(0, longest) + "..." : text;
  }

 private:
  const Json& required(const char* name, const char* expected) const {
    expect(has(name), "{}: expected {}, but it is missing; take the config.json that belongs to the model", name,
           expected);
    return object_[name];
  }
  [[noreturn]] void fail_value(const char* name, const char* expected) const {
    fail(ErrorKind::argument, "{}: expected {}, got {}", name, expected, dumped(name));
  }

  const Json& object_;
};

Activation activation_of(const Fields& fields, const char* name) {
  return value_named(name, kActivations, fields.text(name));
}

HuggingFaceConfig read_bert(const Fields& fields) {
  fields.expect_only("position_embedding_type", "absolute", "relative positions aren't supported");
  fields.expect_only("is_decoder", false, "BERT as a decoder isn't supported");
  fields.expect_only("add_cross_attention", false, "BERT beside an encoder isn't supported");
  HuggingFaceConfig config{.family = Family::bert, .model = default_config(Architecture::bert)};
  TransformerConfig& model = config.model;
  model.vocabulary = fields.size("vocab_size");
  model.layers = fields.size("num_hidden_layers");
  model.dim = fields.size("hidden_size");
  model.heads = fields.size("num_attention_heads");
  model.ffn = fields.size("intermediate_size");
  model.context = fields.size("max_position_embeddings");
  model.activation = activation_of(fields, "hidden_act");
  model.eps = fields.number("layer_norm_eps");
  model.tied_embedding = fields.truth_or("tie_word_embeddings", true);
  config.token_types = fields.size("type_vocab_size");
  return config;
}

HuggingFaceConfig read_gpt2(const Fields& fields) {
  fields.expect_only("scale_attn_weights", true, "attention without 1/sqrt(d) isn't supported");
  fields.expect_only("scale_attn_by_inverse_layer_idx", false, "attention scaled by the layer isn't supported");
  fields.expect_only("add_cross_attention", false, "GPT-2 beside an encoder isn't supported");
  HuggingFaceConfig config{.family = Family::gpt2, .model = default_config(Architecture::gpt2)};
  TransformerConfig& model = config.model;
  model.vocabulary = fields.size("vocab_size");
  model.layers = fields.size("n_layer");
  model.dim = fields.size("n_embd");
  model.heads = fields.size("n_head");
  model.ffn = fields.size_or("n_inner", 4 * model.dim);
  model.context = fields.size("n_positions");
  model.activation = activation_of(fields, "activation_function");
  model.eps = fields.number("layer_norm_epsilon");
  model.tied_embedding = fields.truth_or("tie_word_embeddings", true);
  return config;
}

// rope_theta stands in rope_parameters since version 5 of transformers, and beside rope_scaling before. Files that are
// older than the field mean 10000.
double rotary_base(const Fields& fields) {
  constexpr const char* stretched = "stretched rotary positions aren't supported; take a model without them";
  constexpr const char* partial = "heads that are rotated in part aren't supported";
  double base = fields.has("rope_theta") ? fields.number("rope_theta") : 10000.0;
  fields.expect_only("partial_rotary_factor", 1.0, partial);
  for (const char* const name : {"rope_scaling", "rope_parameters"}) {
    if (!fields.has(name)) continue;
    const Fields rope = fields.object(name);
    for (const char* const type : {"rope_type", "type"}) rope.expect_only(type, "default", stretched);
    rope.expect_only("partial_rotary_factor", 1.0, partial);
    if (rope.has("rope_theta")) base = rope.number("rope_theta");
  }
  return base;
}

void expect_full_attention(const Fields& fields, const Json& json) {
  constexpr const char* why = "attention within a sliding window isn't supported; take a model without it";
  if (!fields.has("layer_types")) {
    fields.expect_only("use_sliding_window", false, why);
    return;
  }
  for (const Json& type : json["layer_types"]) {
    expect(type == "full_attention", "layer_types: expected \"full_attention\" in every layer, got {}: {}",
           fields.dumped("layer_types"), why);
  }
}

// A bias of all of attention's maps and none of the feed-forward branch's, or the reverse, has no place in a model
// here.
bool has_bias(const Fields& fields) {
  const bool attention = fields.truth_or("attention_bias", false);
  const bool feed_forward = fields.truth_or("mlp_bias", false);
  expect(attention == feed_forward,
         "attention_bias and mlp_bias: expected both true or both false, got {} and {}: biases in one branch alone "
         "aren't supported",
         attention, feed_forward);
  return attention;
}

HuggingFaceConfig read_llama(const Fields& fields, const Json& json, Architecture architecture) {
  expect_full_attention(fields, json);
  HuggingFaceConfig config{.family = Family::llama, .model = default_config(architecture)};
  TransformerConfig& model = config.model;
  model.vocabulary = fields.size("vocab_size");
  model.layers = fields.size("num_hidden_layers");
  model.dim = fields.size("hidden_size");
  model.heads = fields.size("num_attention_heads");
  model.key_heads = fields.size_or("num_key_value_heads", model.heads);
  model.head_dim = fields.size_or("head_dim", 0);
  model.ffn = fields.size("intermediate_size");
  model.context = fields.size("max_position_embeddings");
  model.activation = activation_of(fields, "hidden_act");
  model.eps = fields.number("rms_norm_eps");
  model.rotary_base = rotary_base(fields);
  model.bias = has_bias(fields);
  model.tied_embedding = fields.truth_or("tie_word_embeddings", false);
  return config;
}

HuggingFaceConfig read(const Json& json) {
  const Fields fields(json);
  const std::string type = fields.text("model_type");
  fields.expect_only("quantization_config", nullptr, "quantized weights aren't supported; take the model without them");
  if (type == "bert") return read_bert(fields);
  if (type == "gpt2") return read_gpt2(fields);
  if (type == "llama") return read_llama(fields, json, Architecture::llama);
  if (type == "qwen2") {
    HuggingFaceConfig config = read_llama(fields, json, Architecture::qwen);
    config.model.qkv_bias = true;
    config.model.qk_norm = false;
    return config;
  }
  if (type == "qwen3") return read_llama(fields, json, Architecture::qwen);
  fail_unknown_name("model_type", type, {"bert", "gpt2", "llama", "qwen2", "qwen3"});
}

}  // namespace

HuggingFaceConfig read_hugging_face_config(std::string_view json, std::string_view name_for_errors) {
  try {
    const Json object = Json::parse(json, nullptr, false);
    expect(object.is_object(), "expected a JSON object, as Hugging Face's config.json is");
    HuggingFaceConfig config = read(object);
    config.model.validate();
    return config;
  } catch (const Error& error) {
    fail(ErrorKind::file, "'{}': {}", name_for_errors, error.what());
  }
}

}  // namespace jnorm
