// `jnorm info`: what this build is made of and what it runs on, or what a model is made of.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <jnorm/core/device.hpp>
#include <jnorm/core/openblas.hpp>
#include <jnorm/core/parallel.hpp>
#include <jnorm/core/random.hpp>
#include <jnorm/cuda/device.hpp>
#include <jnorm/layers/load_model.hpp>
#include <jnorm/layers/model_summary.hpp>
#include <jnorm/layers/transformer.hpp>
#include <jnorm/layers/version.hpp>

#include "commands.hpp"
#include "setting_flags.hpp"
#include "system_information.hpp"

namespace jnorm {

namespace {

constexpr DType kFloatingDTypes[] = {DType::float64, DType::float32, DType::bfloat16, DType::float16};

std::string dtype_list(bool that_compute) {
  std::vector<std::string> names;
  for (const DType dtype : kFloatingDTypes) {
    if (computes(dtype) == that_compute) names.push_back(to_string(dtype));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// Name and value, a row each.
std::string table_of_facts(const Style& style) {
  const std::string stored_only = dtype_list(false);
  const std::vector<std::pair<std::string, std::string>> facts = {
      {"jnorm", version()},
      {"compiler", fmt::format("{}, {}", compiler_name(), build_description())},
      {"processor", processor_name()},
      {"features", fmt::format("{} (this build uses {})", fmt::join(cpu_features(), " "), vector_extension())},
      {"threads", fmt::format("{} of {} cores", thread_count(), core_count())},
      {"BLAS", blas_description()},
      {"devices", devices_description()},
      {"dtypes", dtype_list(true) + (stored_only.empty() ? "" : fmt::format(" (stored only: {})", stored_only))},
  };
  std::string text;
  for (const auto& [name, value] : facts) text += style.bold(fmt::format("{:<9}", name)) + "  " + value + "\n";
  return text;
}

nlohmann::ordered_json json_of_devices() {
  nlohmann::ordered_json devices{{{"name", Device::cpu().name()}, {"available", true}}};
  int ordinal = 0;
  for (const cuda::DeviceInformation& device : cuda::devices()) {
    devices.push_back({{"name", fmt::format("cuda:{}", ordinal++)},
                       {"available", true},
                       {"model", device.name},
                       {"compute_capability", device.compute_capability},
                       {"bytes", device.memory_bytes}});
  }
  if (ordinal == 0) devices.push_back({{"name", "cuda"}, {"available", false}, {"reason", cuda::why_none()}});
  return devices;
}

nlohmann::ordered_json json_of_facts() {
  nlohmann::ordered_json dtypes = nlohmann::ordered_json::array();
  for (const DType dtype : kFloatingDTypes) {
    dtypes.push_back({{"name", to_string(dtype)},
                      {"bytes", size_of(dtype)},
                      {"epsilon", machine_epsilon(dtype)},
                      {"computes", computes(dtype)}});
  }
  return {
      {"version", version()},
      {"compiler", compiler_name()},
      {"build", build_description()},
      {"processor", processor_name()},
      {"cores", core_count()},
      {"threads", thread_count()},
      {"cpu_features", cpu_features()},
      {"vector_extension", vector_extension()},
      {"blas", {{"description", blas_description()}, {"kernels", blas_core_name()}}},
      {"devices", json_of_devices()},
      {"dtypes", dtypes},
  };
}

std::string sentence(const TransformerConfig& model) {
  return fmt::format(
      "{}, a model of kind {}: {} layers of width {}, placement {}, norm {}, {} heads, vocabulary {}, "
      "context {}",
      to_string(model.architecture), to_string(model.kind), model.layers, model.dim, model.placement.name,
      to_string(model.norm), model.heads, model.vocabulary, model.context);
}

std::string table_of_model(const TransformerConfig& config, const ModelSummary& summary, const Style& style) {
  Table table(
      {{"name"}, {"shape"}, {"times", Align::right}, {"numbers", Align::right}, {"dtype"}, {"bytes", Align::right}});
  for (const SummaryRow& row : summary.rows) {
    table.add({row.path + (row.buffer ? " (buffer)" : ""), to_string(row.shape), std::to_string(row.count),
               format_count(row.numbers()), to_string(row.dtype), format_bytes(row.bytes())});
  }
  std::string text =
      fmt::format("{}\n\n{}\n{} parameters, {}", sentence(config), table.text(style),
                  style.bold(format_count(summary.parameters())), format_bytes(summary.parameter_bytes()));
  if (summary.buffer_bytes() > 0) text += fmt::format("; buffers, {}", format_bytes(summary.buffer_bytes()));
  // Adam keeps two moments of each weight.
  return text + fmt::format("; trained with Adam {}: weights, gradients, two moments\n",
                            format_bytes(4 * summary.parameter_bytes()));
}

nlohmann::ordered_json json_of_model(const RunConfig& config, const ModelSummary& summary) {
  nlohmann::ordered_json settings, rows = nlohmann::ordered_json::array();
  for (const RunSetting& setting : run_settings()) {
    if (setting.group == RunSetting::Group::model) settings[setting.name] = setting.get(config);
  }
  settings["vocabulary"] = std::to_string(config.model.vocabulary);
  for (const SummaryRow& row : summary.rows) {
    rows.push_back({{"name", row.path},
                    {"shape", std::vector<Index>(row.shape.begin(), row.shape.end())},
                    {"times", row.count},
                    {"numbers", row.numbers()},
                    {"dtype", to_string(row.dtype)},
                    {"bytes", row.bytes()},
                    {"buffer", row.buffer}});
  }
  return {{"model", settings},
          {"rows", rows},
          {"parameters", summary.parameters()},
          {"parameter_bytes", summary.parameter_bytes()},
          {"buffer_bytes", summary.buffer_bytes()}};
}

class Info final : public Command {
 public:
  std::string name() const override { return "info"; }
  std::string summary() const override { return "what this build runs on; or the parameters of a model"; }
  std::string details() const override {
    return "Alone it lists versions, threads, which BLAS kernels run, and devices. With a run folder, a checkpoint, a "
           "Hugging "
           "Face model or the options of a model it lists that model's parameters, their shapes and bytes: "
           "jnorm info --arch llama --layers 2";
  }

  void add_flags(Flags& flags) override {
    flags.positional("model", from_, "a run folder, a checkpoint or a Hugging Face model");
    add_setting_flags(flags, config_, RunSetting::Group::model);
  }

  void run(const Session& session) override {
    if (from_.empty() && !given_group(session, RunSetting::Group::model)) {
      session.show("info.txt", table_of_facts, json_of_facts);
      return;
    }
    session.expect_free("info.txt");
    const std::unique_ptr<Transformer> model = make_model(session);
    const ModelSummary summary = jnorm::summary(*model);
    config_.model = model->config();
    session.show(
        "info.txt", [&](const Style& style) { return table_of_model(config_.model, summary, style); },
        [&] { return json_of_model(config_, summary); });
  }

 private:
  std::unique_ptr<Transformer> make_model(const Session& session) {
    if (!from_.empty()) {
      session.expect_not_input("info.txt", from_);
      expect_not_given(session, RunSetting::Group::model, from_);
      LoadedModel loaded = load_any_model(from_);
      for (const std::string& note : loaded.notes) session.note(fmt::format("{}: {}", from_, note));
      return std::move(loaded.model);
    }
    apply_common_settings(config_, session);
    return std::make_unique<Transformer>(config_.model, Rng(config_.training.seed));
  }

  RunConfig config_;
  std::string from_;
};

}  // namespace

std::unique_ptr<Command> info_command() { return std::make_unique<Info>(); }

}  // namespace jnorm
