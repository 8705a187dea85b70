// Models that Hugging Face's transformers saved, of each kind: what they say, layer by layer, against what that library
// computes. tests/golden/hugging_face.py wrote them.

#include <jnorm/layers/hugging_face.hpp>

#include "support/golden.hpp"

#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <temporary_folder.hpp>

#include <jnorm/core/files.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/core/parts.hpp>

using namespace jnorm;

namespace {

using Json = nlohmann::json;

const std::vector<std::string> kKinds{"bert", "minilm", "gpt2", "llama", "qwen2", "qwen3"};

std::string golden_folder(const std::string& kind) { return std::string(JNORM_GOLDEN "/hugging_face/") + kind; }

GoldenEntry expected_of(const std::string& kind) {
  GoldenEntry entry;
  for (auto& [name, tensor] : load_safetensors(golden_folder(kind) + "/expected.safetensors").tensors) {
    entry[name] = tensor;
  }
  return entry;
}

ModelInput input_of(const GoldenEntry& expected) {
  ModelInput input{.tokens = expected.at("tokens")};
  if (expected.contains("mask")) input.mask = expected.at("mask");
  return input;
}

// The largest error of x_0, of each block's output, of the last hidden state and of the logits.
double largest_error(Transformer& model, const GoldenEntry& expected) {
  Tape tape;
  const Var logits = model(tape, input_of(expected));
  double error = golden_error(tape.input("blocks.0").value(), expected.at("hidden.0"));
  for (Index i = 0; i < model.config().layers; ++i) {
    const std::string next = std::to_string(i + 1);
    error = std::max(error,
                     golden_error(tape.output("blocks." + std::to_string(i)).value(), expected.at("hidden." + next)));
  }
  const bool ends_with_norm = model.config().has_final_norm();
  const Var last = tape.output(ends_with_norm ? "final_norm" : "blocks." + std::to_string(model.config().layers - 1));
  error = std::max(error, golden_error(last.value(), expected.at("final")));
  if (expected.contains("logits")) error = std::max(error, golden_error(logits.value(), expected.at("logits")));
  return error;
}

// A copy of a golden model that a test may spoil.
class Copy {
 public:
  explicit Copy(const std::string& kind)
      : weights(load_safetensors(golden_folder(kind) + "/model.safetensors")),
        config(Json::parse(read_file(golden_folder(kind) + "/config.json"))) {}

  SafeTensors weights;
  Json config;

  Tensor& operator[](const std::string& name) {
    for (auto& [known, tensor] : weights.tensors) {
      if (known == name) return tensor;
    }
    return weights.tensors.emplace_back(name, Tensor()).second;
  }
  void erase(const std::string& name) {
    std::erase_if(weights.tensors, [&](const auto& each) { return each.first == name; });
  }

  const std::string& save() {
    write_file_atomically(folder_.file("config.json"), config.dump());
    save_safetensors(folder_.file("model.safetensors"), weights);
    return path_;
  }
  ImportedModel import() { return import_hugging_face(save()); }

  // The message that it is refused with, without the folder's path.
  std::string refusal() {
    try {
      import();
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::file);
      std::string message = error.what();
      const std::size_t at = message.find(path_);
      REQUIRE(at != std::string::npos);
      return message.erase(at, path_.size());
    }
    return "nothing was thrown";
  }

  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
  std::string path_ = folder_.path();
};

std::string refusal_with(const std::string& kind, const char* field, const Json& value) {
  Copy copy(kind);
  copy.config[field] = value;
  return copy.refusal();
}

double logits_change(Transformer& a, Transformer& b, const ModelInput& input) {
  Tape tape;
  const Tensor first = a(tape, input).value();
  return golden_error(b(tape, input).value(), first);
}

}  // namespace

// float32 has 24 bits; the library itself differs in float32 by up to 5e-6 from what it computes in float64.
TEST_CASE("hugging face: in float32 every hidden state and the logits are PyTorch's") {
  for (const std::string& kind : kKinds) {
    CAPTURE(kind);
    const ImportedModel imported = import_hugging_face(golden_folder(kind));
    CHECK(imported.model->config().dtype == DType::float32);
    const double error = largest_error(*imported.model, expected_of(kind));
    MESSAGE(kind, " in float32: ", error);
    CHECK(error <= 1e-5);
  }
}

TEST_CASE("hugging face: in float64 every hidden state and the logits are PyTorch's") {
  for (const std::string& kind : kKinds) {
    CAPTURE(kind);
    Copy copy(kind);
    for (auto& [name, tensor] : copy.weights.tensors) tensor = tensor.to(DType::float64);
    const ImportedModel imported = copy.import();
    CHECK(imported.model->config().dtype == DType::float64);
    const double error = largest_error(*imported.model, expected_of(kind));
    MESSAGE(kind, " in float64: ", error);
    CHECK(error <= 1e-13);
  }
}

TEST_CASE("hugging face: in float32 the logits are those of the library in float32") {
  for (const char* const kind : {"bert", "gpt2", "llama", "qwen2", "qwen3"}) {
    CAPTURE(kind);
    const GoldenEntry expected = expected_of(kind);
    const ImportedModel imported = import_hugging_face(golden_folder(kind));
    Tape tape;
    CHECK(golden_error((*imported.model)(tape, input_of(expected)).value(), expected.at("float32.logits")) <= 1e-5);
  }
}

TEST_CASE("hugging face: a model is found by its folder or by its file") {
  const ImportedModel one = import_hugging_face(golden_folder("llama"));
  const ImportedModel other = import_hugging_face(golden_folder("llama") + "/model.safetensors");
  CHECK(logits_change(*one.model, *other.model, input_of(expected_of("llama"))) == 0.0);
}

TEST_CASE("hugging face: sizes, eps, rotary base, groups and biases come from config.json") {
  const TransformerConfig qwen2 = import_hugging_face(golden_folder("qwen2")).model->config();
  CHECK(qwen2.architecture == Architecture::qwen);
  CHECK(qwen2.vocabulary == 40);
  CHECK(qwen2.context == 12);
  CHECK(qwen2.key_head_count() == 2);
  CHECK(qwen2.eps == 0.01);
  CHECK(qwen2.rotary_base == 50.0);
  CHECK(qwen2.has_qkv_bias());
  CHECK_FALSE(qwen2.bias);
  CHECK_FALSE(qwen2.has_qk_norm());
  const TransformerConfig qwen3 = import_hugging_face(golden_folder("qwen3")).model->config();
  CHECK(qwen3.head_width() == 8);
  CHECK(qwen3.has_qk_norm());
  CHECK_FALSE(qwen3.has_qkv_bias());
}

TEST_CASE("hugging face: older files, with rope_theta beside and without key heads, mean the same") {
  Copy copy("llama");
  copy.config.erase("rope_parameters");
  copy.config["rope_theta"] = 100;
  copy.config["rope_scaling"] = nullptr;
  copy.config.erase("head_dim");
  CHECK(largest_error(*copy.import().model, expected_of("llama")) <= 1e-5);
  copy.config.erase("rope_theta");
  CHECK(copy.import().model->config().rotary_base == 10000.0);
  copy.config.erase("num_key_value_heads");
  CHECK(copy.refusal().find("self_attn.k_proj.weight (expected [16, 16], got float32 [8, 16])") != std::string::npos);
}

TEST_CASE("hugging face: BERT's older names, gamma and beta, mean the same") {
  Copy copy("bert");
  for (auto& [name, tensor] : copy.weights.tensors) {
    const std::size_t norm = name.find("LayerNorm.");
    if (norm != std::string::npos)
      name = name.substr(0, norm) + (name.ends_with("weight") ? "LayerNorm.gamma" : "LayerNorm.beta");
  }
  CHECK(largest_error(*copy.import().model, expected_of("bert")) <= 1e-5);
}

TEST_CASE("hugging face: a model that lacks a head gets the table of its tokens, and says so") {
  const ImportedModel imported = import_hugging_face(golden_folder("minilm"));
  CHECK(imported.notes[0] == "it was saved without a head: logits are products with the embeddings of the tokens");
  CHECK(imported.notes[1] == "left out: pooler.dense.bias, pooler.dense.weight");
  CHECK_FALSE(imported.model->config().head_transform);
}

TEST_CASE("hugging face: GPT-2's and LLaMA's files without the outer name are read, and the head is GPT-2's table") {
  Copy gpt2("gpt2");
  for (auto& [name, tensor] : gpt2.weights.tensors) name = name.substr(std::string("transformer.").size());
  gpt2["h.0.attn.bias"] = ones({1, 1, 12, 12});
  gpt2["h.0.attn.masked_bias"] = full({}, -1e4);
  CHECK(largest_error(*gpt2.import().model, expected_of("gpt2")) <= 1e-5);
  CHECK(gpt2.import().notes == std::vector<std::string>{"left out: h.0.attn.bias, h.0.attn.masked_bias"});
  Copy llama("llama");
  llama.erase("lm_head.weight");
  for (auto& [name, tensor] : llama.weights.tensors) name = name.substr(std::string("model.").size());
  llama["layers.0.self_attn.rotary_emb.inv_freq"] = ones({2});
  CHECK(llama.import().model->config().tied_embedding);
}

TEST_CASE("hugging face: bfloat16 and float16 weights are widened, and positions of 64 bits left out") {
  for (const DType narrow : {DType::bfloat16, DType::float16}) {
    Copy copy("qwen3");
    for (auto& [name, tensor] : copy.weights.tensors) tensor = tensor.to(narrow);
    const auto model = copy.import().model;
    CHECK(model->config().dtype == DType::float32);
    CHECK(model->state()[0].second.values() == copy["model.embed_tokens.weight"].values());
  }
  Copy copy("minilm");
  copy["embeddings.position_ids"] = indices({1, 2}, std::vector<std::int32_t>{0, 1});
  CHECK(copy.import().notes[1].find("embeddings.position_ids, pooler") != std::string::npos);
}

TEST_CASE("hugging face: a tied head that the file has again must be the table") {
  Copy copy("qwen2");
  copy["lm_head.weight"] = copy["model.embed_tokens.weight"];
  CHECK(largest_error(*copy.import().model, expected_of("qwen2")) <= 1e-5);
  copy["lm_head.weight"] = affine(copy["model.embed_tokens.weight"], 2.0, 0.0);
  CHECK(
      copy.refusal() ==
      "'': its tensors aren't those of its config.json; 1 unexpected: lm_head.weight (it differs from what it is tied "
      "to; does config.json say that it is?)");
  copy.config["tie_word_embeddings"] = false;
  CHECK_FALSE(copy.import().model->config().tied_embedding);
}

TEST_CASE("hugging face: a model in several files is read by its index") {
  Copy copy("llama");
  SafeTensors first, second;
  for (const auto& each : copy.weights.tensors) (first.tensors.size() < 9 ? first : second).tensors.push_back(each);
  save_safetensors(copy.folder().file("model-00001-of-00002.safetensors"), first);
  save_safetensors(copy.folder().file("model-00002-of-00002.safetensors"), second);
  write_file_atomically(copy.folder().file("config.json"), copy.config.dump());
  const std::string index = copy.folder().file("model.safetensors.index.json");
  write_file_atomically(index, R"({"weight_map": {"a": "model-00001-of-00002.safetensors",
                                                  "b": "model-00002-of-00002.safetensors"}})");
  CHECK(largest_error(*import_hugging_face(copy.folder().path()).model, expected_of("llama")) <= 1e-5);
  write_file_atomically(index, R"({"weight_map": {"a": "../model.safetensors"}})");
  CHECK_THROWS_WITH_AS(import_hugging_face(copy.folder().path()),
                       doctest::Contains("expected names of files beside it, got \"../model.safetensors\""), Error);
}

TEST_CASE("hugging face: all tensors that are missing, unexpected or of another shape are named at once") {
  Copy copy("llama");
  copy.erase("model.norm.weight");
  copy["model.layers.1.self_attn.q_proj.bias"] = ones({16});
  copy["model.layers.0.mlp.up_proj.weight"] = ones({16, 24});
  CHECK(copy.refusal() ==
        "'': its tensors aren't those of its config.json; 1 missing: model.norm.weight; 1 unexpected: "
        "model.layers.1.self_attn.q_proj.bias; 1 of another shape: model.layers.0.mlp.up_proj.weight (expected [24, "
        "16], got float32 [16, 24])");
}

TEST_CASE("hugging face: GPT-2's matrices the other way round are refused where their shape shows it") {
  Copy copy("gpt2");
  Tensor& matrix = copy["transformer.h.0.attn.c_attn.weight"];
  matrix = permute(matrix, std::array{1, 0});
  CHECK(copy.refusal().find("c_attn.weight (expected [16, 48], got float32 [48, 16])") != std::string::npos);
}

TEST_CASE("hugging face: sizes beyond what the file holds are refused before a model of them is built") {
  for (const char* const field : {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                                  "intermediate_size", "num_key_value_heads", "head_dim"}) {
    CAPTURE(field);
    Copy copy("qwen3");
    copy.config[field] = 2000000000;
    CHECK(copy.refusal() != "nothing was thrown");
  }
  CHECK(refusal_with("bert", "max_position_embeddings", 2000000000).find("(expected [2000000000, 16], got") !=
        std::string::npos);
  CHECK(refusal_with("bert", "num_hidden_layers", 2000000000) ==
        "'': config.json has 2000000000 layers, but there are only 42 tensors");
}

TEST_CASE("hugging face: a file that was cut off is refused, wherever") {
  Copy copy("minilm");
  copy.save();
  const std::string file = copy.folder().file("model.safetensors");
  const std::string whole = read_file(file);
  for (std::size_t length = 0; length < whole.size(); length += 97) {
    CAPTURE(length);
    std::ofstream(file, std::ios::binary) << whole.substr(0, length);
    CHECK_THROWS_AS(import_hugging_face(copy.folder().path()), Error);
  }
}

TEST_CASE("hugging face: a folder without weights, and a file without its config.json, are refused") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(import_hugging_face(folder.path()), doctest::Contains("config.json"), Error);
  write_file_atomically(folder.file("config.json"), read_file(golden_folder("bert") + "/config.json"));
  CHECK_THROWS_WITH_AS(import_hugging_face(folder.path()),
                       doctest::Contains("expected a model.safetensors beside config.json"), Error);
}
