#include <jnorm/layers/hugging_face.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/files.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/core/parts.hpp>
#include <jnorm/core/safetensors.hpp>
#include <jnorm/layers/hugging_face_config.hpp>
#include <nlohmann/json.hpp>

namespace jnorm {

namespace {

namespace fs = std::filesystem;

Tensor transposed(const Tensor& matrix) { return permute(matrix, std::array{1, 0}); }

Tensor rows(const Tensor& x, Index start, Index stop) {
  return slice(x, part_along(x.shape(), 0, {.start = start, .stop = stop}));
}

bool same_elements(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw_data(), b.raw_data(), static_cast<std::size_t>(a.bytes())) == 0;
}

// Takes tensors out of a file and puts them under the names that they have here. What is missing or of another shape
// is noted, and its place stays empty.
class StateReader {
 public:
  explicit StateReader(const SafeTensors& file) {
    for (const auto& [name, tensor] : file.tensors) {
      if (!tensors_.emplace(name, tensor).second) differences_.unexpected.push_back(name + " (again)");
      if (tensor.dtype() == DType::float64) dtype_ = DType::float64;
    }
  }

  DType dtype() const { return dtype_; }  // which holds all weights of the file exactly
  Index tensor_count() const { return static_cast<Index>(tensors_.size()); }
  bool has(const std::string& name) const { return tensors_.contains(name); }

  // An older spelling of a name's end.
  void rename_ends(std::string_view from, std::string_view to) {
    std::map<std::string, Tensor> renamed;
    for (const auto& [name, tensor] : tensors_) {
      const bool fits = name.ends_with(from);
      std::string as = fits ? name.substr(0, name.size() - from.size()) + std::string(to) : name;
      if (!renamed.emplace(std::move(as), tensor).second) differences_.unexpected.push_back(name + " (again)");
    }
    tensors_ = std::move(renamed);
  }

  // Undefined if it isn't there as expected.
  Tensor take(const std::string& name, const Shape& shape) {
    const auto found = tensors_.extract(name);
    if (found.empty()) {
      differences_.missing.push_back(name);
      return {};
    }
    const Tensor& tensor = found.mapped();
    if (tensor.shape() == shape && tensor.dtype() != DType::int32) return tensor.to(dtype_);
    differences_.misshapen.push_back(
        fmt::format("{} (expected {}, got {} {})", name, shape, tensor.dtype(), tensor.shape()));
    return {};
  }

  void put(std::string name, Tensor tensor) { state_.emplace_back(std::move(name), std::move(tensor)); }
  void copy(std::string here, const std::string& there, const Shape& shape) {
    put(std::move(here), take(there, shape));
  }

  // A Linear: weight [out, in], and bias [out].
  void linear(const std::string& here, const std::string& there, Index in, Index out, bool bias = true) {
    copy(here + ".weight", there + ".weight", {out, in});
    if (bias) copy(here + ".bias", there + ".bias", {out});
  }

  // GPT-2's Conv1D, whose weight is [in, out], as one Linear or several: their outputs stand side by side.
  void transposed_linears(const std::vector<std::string>& here, const std::string& there, Index in, Index out) {
    const auto count = static_cast<Index>(here.size());
    const Tensor weight = take(there + ".weight", {in, count * out});
    const Tensor bias = take(there + ".bias", {count * out});
    if (!weight.defined() || !bias.defined()) return;
    const Tensor whole = transposed(weight);
    for (Index i = 0; i < count; ++i) {
      const std::string& name = here[static_cast<std::size_t>(i)];
      put(name + ".weight", rows(whole, i * out, (i + 1) * out));
      put(name + ".bias", rows(bias, i * out, (i + 1) * out));
    }
  }

  void rms_norm(const std::string& here, const std::string& there, Index dim) {
    copy(here + ".gamma", there + ".weight", {dim});
  }
  void layer_norm(const std::string& here, const std::string& there, Index dim) {
    rms_norm(here, there, dim);
    copy(here + ".beta", there + ".bias", {dim});
  }

  // A second name of a tensor that was already put `here`. A file may have it or not, but with the same numbers.
  void take_alias(const std::string& here, const std::string& there) {
    const auto found = tensors_.extract(there);
    if (found.empty()) return;
    const auto original =
        std::find_if(state_.begin(), state_.end(), [&](const auto& each) { return each.first == here; });
    const Tensor& tensor = original->second;
    if (!tensor.defined() || same_elements(found.mapped().to(tensor.dtype()), tensor)) return;
    differences_.unexpected.push_back(there +
                                      " (it differs from what it is tied to; does config.json say that it is?)");
  }

  // What no model here has a place for.
  template <class Predicate>
  void leave_out(Predicate which) {
    for (auto entry = tensors_.begin(); entry != tensors_.end();) {
      if (!which(entry->first)) {
        ++entry;
        continue;
      }
      left_out_.push_back(entry->first);
      entry = tensors_.erase(entry);
    }
  }

  const std::vector<std::string>& left_out() const { return left_out_; }

  // Throws Error(argument) unless everything fitted and was used.
  NamedTensors finish() {
    for (const auto& [name, tensor] : tensors_) differences_.unexpected.push_back(name);
    expect(differences_.none(), "its tensors aren't those of its config.json{}", differences_.in_words());
    return std::move(state_);
  }

 private:
  DType dtype_ = DType::float32;
  std::map<std::string, Tensor> tensors_;
  std::vector<std::string> left_out_;
  StateDifferences differences_;
  NamedTensors state_;
};

std::string block_path(Index layer, std::string_view rest) { return fmt::format("blocks.{}.{}", layer, rest); }

// A whole model's names begin with that of the model inside it; a model that was saved without its head lacks it.
std::string prefix_of(const StateReader& file, const std::string& prefix, const std::string& known) {
  return file.has(prefix + known) ? prefix : "";
}

// The map to logits: the table of the tokens, a matrix of its own, or, of a model that was saved without one, the
// table.
void read_head(StateReader& file, TransformerConfig& model, const std::string& name, bool headless,
               std::vector<std::string>& notes) {
  if (headless && !file.has(name)) {
    model.tied_embedding = true;
    notes.emplace_back("it was saved without a head: logits are products with the embeddings of the tokens");
  }
  if (model.tied_embedding) {
    file.take_alias("token_embedding.table", name);
  } else {
    file.copy("head.weight", name, {model.vocabulary, model.dim});
  }
}

void read_bert_embeddings(StateReader& file, const HuggingFaceConfig& config, const std::string& embeddings) {
  const TransformerConfig& model = config.model;
  file.copy("token_embedding.table", embeddings + "word_embeddings.weight", {model.vocabulary, model.dim});
  Tensor positions = file.take(embeddings + "position_embeddings.weight", {model.context, model.dim});
  const Tensor types = file.take(embeddings + "token_type_embeddings.weight", {config.token_types, model.dim});
  if (positions.defined() && types.defined()) {
    positions = add(positions, broadcast_to(rows(types, 0, 1), positions.shape()));  // all tokens are of type 0
  }
  file.put("position_embedding.table", positions);
  file.layer_norm("embedding_norm", embeddings + "LayerNorm", model.dim);
}

void read_bert_block(StateReader& file, const TransformerConfig& model, Index layer, const std::string& base) {
  const std::string there = fmt::format("{}encoder.layer.{}.", base, layer);
  const Index dim = model.dim;
  for (const char* const map : {"query", "key", "value"}) {
    file.linear(block_path(layer, "attention.branch.") + map, there + "attention.self." + map, dim, dim);
  }
  file.linear(block_path(layer, "attention.branch.output"), there + "attention.output.dense", dim, dim);
  file.layer_norm(block_path(layer, "attention.norm"), there + "attention.output.LayerNorm", dim);
  file.linear(block_path(layer, "ffn.branch.up"), there + "intermediate.dense", dim, model.ffn);
  file.linear(block_path(layer, "ffn.branch.down"), there + "output.dense", model.ffn, dim);
  file.layer_norm(block_path(layer, "ffn.norm"), there + "output.LayerNorm", dim);
}

void read_bert(StateReader& file, HuggingFaceConfig& config, std::vector<std::string>& notes) {
  TransformerConfig& model = config.model;
  // The names that TensorFlow's weights brought along.
  file.rename_ends("LayerNorm.gamma", "LayerNorm.weight");
  file.rename_ends("LayerNorm.beta", "LayerNorm.bias");
  const std::string base = prefix_of(file, "bert.", "embeddings.word_embeddings.weight");
  read_bert_embeddings(file, config, base + "embeddings.");
  for (Index layer = 0; layer < model.layers; ++layer) read_bert_block(file, model, layer, base);

  const bool headless = base.empty() && !file.has("cls.predictions.bias");
  read_head(file, model, "cls.predictions.decoder.weight", headless, notes);
  if (headless) {
    model.head_transform = false;
    model.head_bias = false;
  } else {
    file.linear("head_transform", "cls.predictions.transform.dense", model.dim, model.dim);
    file.layer_norm("head_norm", "cls.predictions.transform.LayerNorm", model.dim);
    file.copy("head_bias", "cls.predictions.bias", {model.vocabulary});
    file.take_alias("head_bias", "cls.predictions.decoder.bias");
  }
  file.leave_out([&](const std::string& name) {
    return name.starts_with(base + "pooler.") || name.starts_with("cls.seq_relationship.") ||
           name == base + "embeddings.position_ids";
  });
}

void read_gpt2_block(StateReader& file, const TransformerConfig& model, Index layer, const std::string& base) {
  const std::string there = fmt::format("{}h.{}.", base, layer);
  file.layer_norm(block_path(layer, "attention.norm"), there + "ln_1", model.dim);
  file.transposed_linears({block_path(layer, "attention.branch.query"), block_path(layer, "attention.branch.key"),
                           block_path(layer, "attention.branch.value")},
                          there + "attn.c_attn", model.dim, model.dim);
  file.transposed_linears({block_path(layer, "attention.branch.output")}, there + "attn.c_proj", model.dim, model.dim);
  file.layer_norm(block_path(layer, "ffn.norm"), there + "ln_2", model.dim);
  file.transposed_linears({block_path(layer, "ffn.branch.up")}, there + "mlp.c_fc", model.dim, model.ffn);
  file.transposed_linears({block_path(layer, "ffn.branch.down")}, there + "mlp.c_proj", model.ffn, model.dim);
}

void read_gpt2(StateReader& file, HuggingFaceConfig& config, std::vector<std::string>& notes) {
  TransformerConfig& model = config.model;
  const std::string base = prefix_of(file, "transformer.", "wte.weight");
  file.copy("token_embedding.table", base + "wte.weight", {model.vocabulary, model.dim});
  file.copy("position_embedding.table", base + "wpe.weight", {model.context, model.dim});
  for (Index layer = 0; layer < model.layers; ++layer) read_gpt2_block(file, model, layer, base);
  file.layer_norm("final_norm", base + "ln_f", model.dim);
  // A tied head is the table anyway: GPT-2 itself was published without that name.
  read_head(file, model, "lm_head.weight", base.empty() && !model.tied_embedding, notes);
  file.leave_out([](const std::string& name) {  // causal masks
    return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
  });
}

void read_llama_block(StateReader& file, const TransformerConfig& model, Index layer, const std::string& base) {
  const std::string there = fmt::format("{}layers.{}.", base, layer);
  const std::string attention = block_path(layer, "attention.branch."), ffn = block_path(layer, "ffn.branch.");
  const Index dim = model.dim, queries = model.heads * model.head_width(),
              keys = model.key_head_count() * model.head_width();
  const bool bias = model.has_qkv_bias();
  file.rms_norm(block_path(layer, "attention.norm"), there + "input_layernorm", dim);
  file.linear(attention + "query", there + "self_attn.q_proj", dim, queries, bias);
  file.linear(attention + "key", there + "self_attn.k_proj", dim, keys, bias);
  file.linear(attention + "value", there + "self_attn.v_proj", dim, keys, bias);
  file.linear(attention + "output", there + "self_attn.o_proj", queries, dim, model.bias);
  if (model.has_qk_norm()) {
    file.rms_norm(attention + "query_norm", there + "self_attn.q_norm", model.head_width());
    file.rms_norm(attention + "key_norm", there + "self_attn.k_norm", model.head_width());
  }
  file.rms_norm(block_path(layer, "ffn.norm"), there + "post_attention_layernorm", dim);
  file.linear(ffn + "gate", there + "mlp.gate_proj", dim, model.ffn, model.bias);
  file.linear(ffn + "up", there + "mlp.up_proj", dim, model.ffn, model.bias);
  file.linear(ffn + "down", there + "mlp.down_proj", model.ffn, dim, model.bias);
}

void read_llama(StateReader& file, HuggingFaceConfig& config, std::vector<std::string>& notes) {
  TransformerConfig& model = config.model;
  const std::string base = prefix_of(file, "model.", "embed_tokens.weight");
  file.copy("token_embedding.table", base + "embed_tokens.weight", {model.vocabulary, model.dim});
  for (Index layer = 0; layer < model.layers; ++layer) read_llama_block(file, model, layer, base);
  file.rms_norm("final_norm", base + "norm", model.dim);
  read_head(file, model, "lm_head.weight", base.empty(), notes);
  file.leave_out([](const std::string& name) { return name.ends_with("rotary_emb.inv_freq"); });
}

ImportedModel build(HuggingFaceConfig config, const SafeTensors& weights) {
  StateReader file(weights);
  // Each layer has several tensors: an absurd number of layers isn't looked for one by one.
  expect(config.model.layers <= file.tensor_count(), "config.json has {} layers, but there are only {} tensors",
         config.model.layers, file.tensor_count());
  ImportedModel imported;
  switch (config.family) {
    case HuggingFaceConfig::Family::bert: read_bert(file, config, imported.notes); break;
    case HuggingFaceConfig::Family::gpt2: read_gpt2(file, config, imported.notes); break;
    case HuggingFaceConfig::Family::llama: read_llama(file, config, imported.notes); break;
  }
  const NamedTensors state = file.finish();
  if (!file.left_out().empty()) {
    imported.notes.push_back(fmt::format("left out: {}", fmt::join(file.left_out(), ", ")));
  }
  config.model.dtype = file.dtype();
  imported.model = std::make_unique<Transformer>(config.model, Rng(0));
  imported.model->load_state(state);
  imported.model->set_training(false);
  return imported;
}

// The files of a model that was saved in parts, by an index {"weight_map": {tensor: file}}.
std::set<std::string> parts_of(const fs::path& index) {
  const nlohmann::json json = nlohmann::json::parse(read_file(index.string()), nullptr, false);
  std::set<std::string> parts;
  if (json.is_object() && json.contains("weight_map") && json["weight_map"].is_object()) {
    for (const auto& part : json["weight_map"]) {
      const bool in_folder =
          part.is_string() && fs::path(part.get<std::string>()).filename() == part.get<std::string>();
      if (!in_folder)
        fail(ErrorKind::file, "'{}': expected names of files beside it, got {}", index.string(), part.dump());
      parts.insert(part.get<std::string>());
    }
  }
  if (parts.empty()) fail(ErrorKind::file, "'{}': expected a \"weight_map\" of tensors to files", index.string());
  return parts;
}

SafeTensors load_weights(const fs::path& folder) {
  const fs::path whole = folder / "model.safetensors", index = folder / "model.safetensors.index.json";
  if (fs::exists(whole)) return load_safetensors(whole.string());
  if (!fs::exists(index)) {
    fail(ErrorKind::file, "'{}': expected a model.safetensors beside config.json; save the model as safetensors",
         folder.string());
  }
  SafeTensors all;
  for (const std::string& part : parts_of(index)) {
    SafeTensors file = load_safetensors((folder / part).string());
    std::move(file.tensors.begin(), file.tensors.end(), std::back_inserter(all.tensors));
  }
  return all;
}

}  // namespace

ImportedModel import_hugging_face(const std::string& path) {
  const bool is_folder = fs::is_directory(path);
  const fs::path folder = is_folder ? fs::path(path) : fs::path(path).parent_path();
  const std::string config = (folder / "config.json").string();
  const HuggingFaceConfig read = read_hugging_face_config(read_file(config), config);
  const SafeTensors weights = is_folder ? load_weights(folder) : load_safetensors(path);
  try {
    return build(read, weights);
  } catch (const Error& error) {
    fail(ErrorKind::file, "'{}': {}", path, error.what());
  }
}

}  // namespace jnorm
