#include <jnorm/layers/checkpoint.hpp>

#include <algorithm>
#include <cmath>

#include <jnorm/core/expect.hpp>
#include <jnorm/layers/memory_estimate.hpp>
#include <jnorm/layers/non_finite.hpp>
#include <jnorm/layers/parse_number.hpp>

namespace jnorm {

namespace {

constexpr const char* kFormat = "jnorm";
constexpr const char* kVersion = "checkpoint 1";
constexpr std::string_view kOptimizerPrefix = "optimizer.";
constexpr std::string_view kSettingPrefix = "run.";

// Paths say where a text or a model lay on one machine; the checkpoint describes the text's bytes instead.
bool is_kept(const RunSetting& setting) { return setting.name != "text" && setting.name != "from"; }

// Gives metadata out; each must be there, and none may be left.
class Metadata {
 public:
  explicit Metadata(std::map<std::string, std::string> entries) : entries_(std::move(entries)) {
    expect(entries_[kFormat] == kVersion,
           "it is no checkpoint: expected the metadata '{}': '{}'; a model of Hugging Face's needs its config.json "
           "beside it",
           kFormat, kVersion);
    entries_.erase(kFormat);
  }

  bool has(const std::string& name) const { return entries_.contains(name); }

  std::string text(const std::string& name) {
    const auto entry = entries_.extract(name);
    expect(!entry.empty(), "its metadata lack '{}'", name);
    return entry.mapped();
  }

  template <class Number>
  Number number(const std::string& name) {
    return parse_number<Number>(name, text(name));
  }

  void expect_none_left() const {
    expect(entries_.empty(), "its metadata have an unknown {}",
           entries_.empty() ? "" : in_quotes(entries_.begin()->first));
  }

 private:
  std::map<std::string, std::string> entries_;
};

std::optional<LossScaler::State> read_loss_scaler(Metadata& metadata) {
  if (!metadata.has("loss_scaler.scale")) return std::nullopt;
  return LossScaler::State{.scale = metadata.number<double>("loss_scaler.scale"),
                           .steps_since_change = metadata.number<Index>("loss_scaler.steps_since_change"),
                           .skips_at_minimum = metadata.number<Index>("loss_scaler.skips_at_minimum"),
                           .overflows = metadata.number<Index>("loss_scaler.overflows")};
}

void write(std::map<std::string, std::string>& metadata, const LossScaler::State& state) {
  metadata["loss_scaler.scale"] = fmt::format("{}", state.scale);
  metadata["loss_scaler.steps_since_change"] = std::to_string(state.steps_since_change);
  metadata["loss_scaler.skips_at_minimum"] = std::to_string(state.skips_at_minimum);
  metadata["loss_scaler.overflows"] = std::to_string(state.overflows);
}

std::optional<BestEvaluation> read_best(Metadata& metadata, Index last_step) {
  if (!metadata.has("best.loss")) return std::nullopt;
  const BestEvaluation best{.loss = metadata.number<double>("best.loss"),
                            .step = metadata.number<Index>("best.step"),
                            .evaluations_since = metadata.number<Index>("best.evaluations_since")};
  expect(std::isfinite(best.loss), "best.loss: expected a finite number, got {}", best.loss);
  expect(best.step > 0 && best.step <= last_step, "best.step: expected one of the {} that were made, got {}", last_step,
         best.step);
  expect(best.evaluations_since >= 0 && best.evaluations_since <= last_step - best.step,
         "best.evaluations_since: expected no more than the steps since, {}, got {}", last_step - best.step,
         best.evaluations_since);
  return best;
}

void write(std::map<std::string, std::string>& metadata, const BestEvaluation& best) {
  metadata["best.loss"] = fmt::format("{}", best.loss);
  metadata["best.step"] = std::to_string(best.step);
  metadata["best.evaluations_since"] = std::to_string(best.evaluations_since);
}

Checkpoint read(const SafeTensors& file) {
  Metadata metadata(file.metadata);
  Checkpoint checkpoint;
  for (const RunSetting& setting : run_settings()) {
    const std::string name = std::string(kSettingPrefix) + setting.name;
    if (!is_kept(setting) || (setting.may_be_left_out && !metadata.has(name))) continue;
    setting.set(checkpoint.config, metadata.text(name));
  }
  checkpoint.config.model.vocabulary = metadata.number<Index>("vocabulary");
  checkpoint.config.validate();
  checkpoint.data = metadata.text("data");
  checkpoint.data_state = {.seed = metadata.number<std::uint64_t>("data.seed"),
                           .stream = metadata.number<std::uint64_t>("data.stream"),
                           .counter = metadata.number<std::uint64_t>("data.counter")};
  checkpoint.step = metadata.number<Index>("step");
  expect(checkpoint.step >= 0 && checkpoint.step <= checkpoint.config.training.steps,
         "step: expected one of the run's {}, got {}", checkpoint.config.training.steps, checkpoint.step);
  checkpoint.loss_scaler = read_loss_scaler(metadata);
  checkpoint.best = read_best(metadata, checkpoint.step);
  metadata.expect_none_left();
  for (const auto& [name, tensor] : file.tensors) {
    if (name.starts_with(kOptimizerPrefix)) {
      checkpoint.optimizer.emplace_back(name.substr(kOptimizerPrefix.size()), tensor);
    } else {
      checkpoint.weights.emplace_back(name, tensor);
    }
  }
  return checkpoint;
}

double element_count(const NamedTensors& tensors) {
  double count = 0.0;
  for (const auto& [name, tensor] : tensors) count += static_cast<double>(tensor.size());
  return count;
}

// A file may claim any sizes: before a model of them is built, its matrices must fit into what the file holds.
void expect_plausible_size(const Checkpoint& checkpoint, std::string_view name_for_errors) {
  const double needed = count_matrix_weights(checkpoint.config.model);
  const double found = element_count(checkpoint.weights);
  if (needed <= found) return;
  fail(ErrorKind::file, "'{}': a model of its sizes has at least {} weights, but the file holds {}", name_for_errors,
       needed, found);
}

}  // namespace

SafeTensors to_safetensors(const Checkpoint& checkpoint) {
  SafeTensors file;
  file.metadata = {{kFormat, kVersion},
                   {"step", std::to_string(checkpoint.step)},
                   {"vocabulary", std::to_string(checkpoint.config.model.vocabulary)},
                   {"data", checkpoint.data},
                   {"data.seed", std::to_string(checkpoint.data_state.seed)},
                   {"data.stream", std::to_string(checkpoint.data_state.stream)},
                   {"data.counter", std::to_string(checkpoint.data_state.counter)}};
  for (const RunSetting& setting : run_settings()) {
    if (is_kept(setting)) file.metadata[std::string(kSettingPrefix) + setting.name] = setting.get(checkpoint.config);
  }
  if (checkpoint.loss_scaler) write(file.metadata, *checkpoint.loss_scaler);
  if (checkpoint.best) write(file.metadata, *checkpoint.best);
  file.tensors = checkpoint.weights;
  for (const auto& [name, tensor] : checkpoint.optimizer) {
    file.tensors.emplace_back(std::string(kOptimizerPrefix) + name, tensor);
  }
  return file;
}

Checkpoint from_safetensors(const SafeTensors& file, std::string_view name_for_errors) {
  try {
    return read(file);
  } catch (const Error& error) {
    fail(ErrorKind::file, "'{}': {}", name_for_errors, error.what());
  }
}

void save_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  save_safetensors(path, to_safetensors(checkpoint));
}

Checkpoint load_checkpoint(const std::string& path) { return from_safetensors(load_safetensors(path), path); }

bool is_checkpoint(const std::string& path) { return load_safetensors(path).metadata.contains(kFormat); }

void load_weights(Transformer& model, const Checkpoint& checkpoint, std::string_view name_for_errors) {
  RunConfig here;
  here.model = model.config();
  const std::string differences = differing_settings(checkpoint.config, here, {RunSetting::Group::model});
  if (!differences.empty()) {
    fail(ErrorKind::file, "'{}' is of another model: {}; load it into a model of its own configuration",
         name_for_errors, differences);
  }
  const std::string where = describe_non_finite_weight(checkpoint.weights);
  if (!where.empty()) fail(ErrorKind::file, "'{}': {}; go on from an earlier checkpoint", name_for_errors, where);
  try {
    model.load_state(checkpoint.weights);
  } catch (const Error& error) {
    fail(ErrorKind::file, "'{}' doesn't fit its own configuration: {}", name_for_errors, error.what());
  }
}

std::unique_ptr<Transformer> model_of(const Checkpoint& checkpoint, std::string_view name_for_errors) {
  expect_plausible_size(checkpoint, name_for_errors);
  auto model = std::make_unique<Transformer>(checkpoint.config.model, Rng(0));
  load_weights(*model, checkpoint, name_for_errors);
  return model;
}

std::unique_ptr<Transformer> load_model(const std::string& path) { return model_of(load_checkpoint(path), path); }

std::string differing_settings(const RunConfig& there, const RunConfig& here,
                               std::initializer_list<RunSetting::Group> groups) {
  std::vector<std::string> differences;
  const auto compare = [&](std::string_view name, const std::string& theirs, const std::string& ours) {
    if (theirs != ours) differences.push_back(fmt::format("{} is {} there, but {} here", name, theirs, ours));
  };
  for (const RunSetting& setting : run_settings()) {
    const bool asked = std::find(groups.begin(), groups.end(), setting.group) != groups.end();
    if (asked && is_kept(setting)) compare(setting.name, setting.get(there), setting.get(here));
  }
  compare("vocabulary", std::to_string(there.model.vocabulary), std::to_string(here.model.vocabulary));
  return fmt::format("{}", fmt::join(differences, "; "));
}

}  // namespace jnorm
