#include <jnorm/layers/hugging_face_config.hpp>

#include <core/damaged_files.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <jnorm/core/files.hpp>

using namespace jnorm;

namespace {

using Json = nlohmann::json;

Json golden(const std::string& kind) {
  return Json::parse(read_file(std::string(JNORM_GOLDEN "/hugging_face/") + kind + "/config.json"));
}

void read(std::string_view json) { read_hugging_face_config(json, "c"); }

// With one field of another value.
std::string refusal_with(const std::string& kind, const char* field, const Json& value) {
  Json config = golden(kind);
  config[field] = value;
  return refusal(read, config.dump());
}

}  // namespace

TEST_CASE("hugging face config: a config.json that lacks a field, or has another type there, is refused by its name") {
  const std::pair<const char*, const char*> needed[] = {{"bert", "layer_norm_eps"}, {"bert", "type_vocab_size"},
                                                        {"gpt2", "n_positions"},    {"llama", "rms_norm_eps"},
                                                        {"qwen2", "vocab_size"},    {"qwen3", "model_type"}};
  for (const auto& each : needed) {
    const char* const field = each.second;
    CAPTURE(field);
    Json config = golden(each.first);
    config.erase(field);
    const std::string message = refusal(read, config.dump());
    CHECK(message.find(std::string(field) + ": expected a ") != std::string::npos);
    CHECK(message.find("but it is missing; take the config.json that belongs to the model") != std::string::npos);
  }
  CHECK(refusal_with("llama", "hidden_size", "16") ==
        "'c': hidden_size: expected a positive whole number below 2^31, got \"16\"");
  CHECK(refusal_with("llama", "hidden_size", -16).ends_with("got -16"));
  CHECK(refusal_with("llama", "hidden_size", 16.5).ends_with("got 16.5"));
  CHECK(refusal_with("bert", "layer_norm_eps", "small").ends_with("expected a number, got \"small\""));
  CHECK(refusal_with("bert", "tie_word_embeddings", 1).ends_with("expected true or false, got 1"));
}

TEST_CASE("hugging face config: another kind of model is refused by name") {
  CHECK(refusal_with("bert", "model_type", "t5") ==
        "'c': model_type: expected one of bert, gpt2, llama, qwen2, qwen3, got \"t5\"");
  CHECK(refusal_with("llama", "hidden_act", "mish").find("hidden_act: expected one of gelu, gelu_new") !=
        std::string::npos);
}

TEST_CASE("hugging face config: what a Transformer here doesn't do is refused by its field") {
  CHECK(refusal_with("llama", "rope_parameters", {{"rope_type", "llama3"}, {"rope_theta", 1e4}}) ==
        "'c': rope_type: expected \"default\", got \"llama3\": stretched rotary positions aren't supported; "
        "take a model without them");
  CHECK(
      refusal_with("llama", "rope_scaling", {{"type", "linear"}, {"factor", 2.0}}).find("type: expected \"default\"") !=
      std::string::npos);
  CHECK(refusal_with("llama", "rope_scaling", 2.0).find("rope_scaling: expected an object, got 2.0") !=
        std::string::npos);
  CHECK(refusal_with("qwen2", "layer_types", {"full_attention", "sliding_attention"}).find("layer_types: expected ") !=
        std::string::npos);
  CHECK(refusal_with("llama", "attention_bias", true).find("expected both true or both false, got true and false") !=
        std::string::npos);
  CHECK(refusal_with("gpt2", "scale_attn_by_inverse_layer_idx", true).find("expected false, got true") !=
        std::string::npos);
  CHECK(refusal_with("bert", "position_embedding_type", "relative_key").find("expected \"absolute\"") !=
        std::string::npos);
  CHECK(refusal_with("bert", "is_decoder", true).find("is_decoder: expected false, got true") != std::string::npos);
  CHECK(refusal_with("llama", "quantization_config", {{"bits", 4}}).find("quantized") != std::string::npos);
  Json config = golden("qwen2");
  config.erase("layer_types");
  config["use_sliding_window"] = true;
  CHECK(refusal(read, config.dump()).find("use_sliding_window: expected false, got true") != std::string::npos);
}

TEST_CASE("hugging face config: biases may stand in both branches or in none") {
  Json config = golden("llama");
  config["attention_bias"] = true;
  config["mlp_bias"] = true;
  CHECK(read_hugging_face_config(config.dump(), "c").model.bias);
  CHECK_FALSE(read_hugging_face_config(golden("llama").dump(), "c").model.bias);
}

TEST_CASE("hugging face config: what is no JSON object is refused") {
  for (const char* const text : {"", "{", "[]", "7", "null", "{\"model_type\": \"llama\""}) {
    CHECK(refusal(read, text) == "'c': expected a JSON object, as Hugging Face's config.json is");
  }
}

TEST_CASE("hugging face config: every truncation is refused, and a changed byte is taken or refused") {
  for (const char* const kind : {"bert", "gpt2", "llama", "qwen3"}) {
    CAPTURE(kind);
    check_truncations(read, golden(kind).dump());
    CHECK(count_taken_mutations(read, golden(kind).dump(), 2000) > 0);
  }
}
