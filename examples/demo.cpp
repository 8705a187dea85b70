// `jnorm demo`: the main job. Trains a Pre-Norm and a Post-Norm model on the same text with the same recipe, measures
// every layer's Jacobian before and after, prints a table and writes a page.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/files.hpp>
#include <jnorm/layers/trainer.hpp>

#include "commands.hpp"
#include "interrupt.hpp"
#include "probe_json.hpp"
#include "report.hpp"
#include "setting_flags.hpp"

namespace jnorm {

namespace {

// Deep and hot enough that the placements differ, small enough for two cores and three minutes.
RunConfig demo_config() {
  RunConfig config;
  config.model.layers = 12;
  config.model.dim = 48;
  config.model.heads = 4;
  config.model.context = 32;
  config.training.steps = 1500;
  config.training.batch = 16;
  config.training.learning_rate = 3e-3;
  config.training.evaluation_interval = 100;
  config.training.checkpoint_interval = 0;
  return config;
}

// One model in training, and what was measured of it.
struct Contestant {
  Contestant(const RunConfig& config, const Placement& placement, Device device)
      : trainer(with_placement(config, placement), device), run{placement, {}, {}, {}, {}, {}, {}} {}

  static RunConfig with_placement(RunConfig config, const Placement& placement) {
    config.model.placement = placement;
    return config;
  }

  Trainer trainer;
  PlacementRun run;
};

// The held-out tokens that both models are measured on: the first sequence of the first validation batch, and its
// source for models that read one.
ProbeOptions probe_input(const Trainer& trainer, Index length) {
  const Batch batch = trainer.data().validation(1, 0);
  const Index used = std::min(length, batch.tokens.dim(1));
  const auto first = [&](const Tensor& tokens) {
    return indices({1, used}, {tokens.data<std::int32_t>(), static_cast<std::size_t>(used)});
  };
  return {.tokens = first(batch.tokens),
          .source = batch.source.defined() ? first(batch.source) : Tensor(),
          .targets = first(batch.targets)};
}

class Demo final : public Command {
 public:
  std::string name() const override { return "demo"; }
  std::string summary() const override {
    return "trains Pre-Norm and Post-Norm alike, measures both, writes report.html";
  }
  std::string details() const override {
    return "Same text, same seed, same starting weights, same recipe; only the norm's place differs. The text is "
           "that of Debian's package fortunes unless --text names another.";
  }

  void add_flags(Flags& flags) override {
    for (const auto group : {RunSetting::Group::model, RunSetting::Group::data, RunSetting::Group::training}) {
      add_setting_flags(flags, config_, group);
    }
    flags.group("Measuring");
    flags.add("--probe-tokens", probe_tokens_, "N", "how many tokens the Jacobians span; time grows with N^3", 1);
  }

  bool computes_on_devices() const override { return true; }

  void run(const Session& session) override {
    expect(!session.given("--placement"), "--placement: demo trains both, pre and post; use train for one");
    expect(!session.given("--from"), "--from: demo measures both models from their start; use train to go on with one");
    apply_common_settings(config_, session);

    std::vector<std::unique_ptr<Contestant>> contestants;
    for (const Placement* placement : {&Placement::pre, &Placement::post}) {
      contestants.push_back(std::make_unique<Contestant>(config_, *placement, session.device()));
    }
    const Trainer& first = contestants.front()->trainer;
    expect(first.data().has_validation(),
           "demo: the text has no validation part; --validation-fraction must be above 0");
    const std::string page = page_path(session);
    if (const std::string warning = first.data().warning(); !warning.empty()) session.note("warning: " + warning);

    measure_all(session, "measuring at the start", contestants, &PlacementRun::before);
    train(session, contestants);
    measure_all(session, "measuring after training", contestants, &PlacementRun::after);

    DemoResult result;
    for (auto& contestant : contestants) result.runs.push_back(std::move(contestant->run));
    result.recipe = recipe_of(first);
    result.command = command_of(session);
    write_file_atomically(page, render_report(result));
    show(session, result, page);
    const double error = largest_decomposition_error(result);
    if (!(error <= kDecompositionTolerance)) {
      fail(ErrorKind::check, "demo: the Jacobians' parts differ from the whole by {:.2g}, {:.0e} is allowed", error,
           kDecompositionTolerance);
    }
  }

 private:
  using Contestants = std::vector<std::unique_ptr<Contestant>>;

  // Where the page goes: checked before anything is trained.
  static std::string page_path(const Session& session) {
    const std::string& folder = session.common().out;
    std::error_code error;
    if (!folder.empty()) std::filesystem::create_directories(folder, error);
    if (error) fail(ErrorKind::file, "--out: {} can't be made: {}", folder, error.message());
    if (::access(folder.empty() ? "." : folder.c_str(), W_OK) != 0) {
      fail(ErrorKind::io, "no report.html can be written here: {}; name a folder with --out", std::strerror(errno));
    }
    if (folder.empty()) return "report.html";
    std::string page = folder + "/report.html";
    expect(session.common().force || !std::filesystem::exists(page),
           "--out: {} exists; choose another folder, or --force", page);
    return page;
  }

  void measure_all(const Session& session, const char* what, Contestants& contestants,
                   ProbeReport PlacementRun::*report) const {
    const Index layers = config_.model.layers;
    Progress progress =
        session.progress({.what = what, .total = layers * static_cast<Index>(contestants.size()), .unit = "layers"});
    Index before = 0;
    for (auto& contestant : contestants) {
      ProbeOptions options = probe_input(contestant->trainer, probe_tokens_);
      options.on_layer = [&](Index done) { progress.update(before + done); };
      contestant->run.*report = probe(contestant->trainer.model(), options);
      before += layers;
    }
    progress.finish();
  }

  void train(const Session& session, Contestants& contestants) const {
    Progress progress = session.progress({.what = "training both", .total = config_.training.steps, .unit = "steps"});
    const InterruptGuard interrupt;
    for (Index step = 1; step <= config_.training.steps; ++step) {
      if (interrupt.requested()) {
        fail(ErrorKind::interrupted, "demo: interrupted at step {}; a demo keeps no checkpoint", step);
      }
      std::string losses;
      bool evaluated = false;
      for (auto& contestant : contestants) {
        const StepMetrics metrics = contestant->trainer.step();
        PlacementRun& run = contestant->run;
        run.steps.push_back(static_cast<double>(metrics.step));
        run.losses.push_back(metrics.loss);
        losses += fmt::format("  {} {:.3f}", run.placement.name, metrics.loss);
        if (!metrics.validation) continue;
        evaluated = true;
        run.evaluation_steps.push_back(static_cast<double>(metrics.step));
        run.validation_losses.push_back(metrics.validation->loss);
        losses += fmt::format(" (held out {:.3f})", metrics.validation->loss);
      }
      if (evaluated) progress.print(fmt::format("step {:>5}{}", step, losses));
      progress.update(step, "loss" + losses);
    }
    progress.finish();
  }

  static std::vector<std::pair<std::string, std::string>> recipe_of(const Trainer& trainer) {
    std::vector<std::pair<std::string, std::string>> recipe{{"data", trainer.data().description()}};
    for (const RunSetting& setting : run_settings()) {
      const bool differs = setting.name == "placement" || setting.name == "final-norm";
      const bool of_data = setting.group == RunSetting::Group::data;  // the description says it
      if (!differs && !of_data) recipe.emplace_back(setting.name, setting.get(trainer.config()));
    }
    return recipe;
  }

  // Every setting that isn't the demo's own.
  std::string command_of(const Session& session) const {
    std::string command = "jnorm demo";
    const RunConfig usual = demo_config();
    for (const RunSetting& setting : run_settings()) {
      if (setting.name == "placement") continue;
      const std::string value = setting.get(config_);
      if (value != setting.get(usual)) command += fmt::format(" --{} {}", setting.name, value);
    }
    if (session.given("--probe-tokens")) command += fmt::format(" --probe-tokens {}", probe_tokens_);
    return command;
  }

  void show(const Session& session, const DemoResult& result, const std::string& page) const {
    if (session.common().json) {
      nlohmann::ordered_json json{{"report", page}, {"runs", nlohmann::ordered_json::array()}};
      for (const PlacementRun& run : result.runs) json["runs"].push_back(json_of(run));
      fmt::print("{}\n", json.dump(2));
      return;
    }
    fmt::print("{}\nThe whole story, with pictures: {}\n", demo_table(result, Style::for_stream(stdout)), page);
  }

  nlohmann::ordered_json json_of(const PlacementRun& run) const {
    TransformerConfig config = config_.model;
    config.placement = run.placement;
    return {{"placement", run.placement.name},
            {"losses", run.losses},
            {"evaluation_steps", run.evaluation_steps},
            {"validation_losses", run.validation_losses},
            {"before", to_json(run.before, config, kDecompositionTolerance)},
            {"after", to_json(run.after, config, kDecompositionTolerance)}};
  }

  static std::string demo_table(const DemoResult& result, const Style& style);

  RunConfig config_ = demo_config();
  Index probe_tokens_ = 8;
};

std::string Demo::demo_table(const DemoResult& result, const Style& style) {
  std::vector<Table::Column> columns{{"||J - I|| / sqrt(N)"}};
  for (const PlacementRun& run : result.runs) {
    columns.push_back({fmt::format("{} at start", run.placement.name), Align::right});
    columns.push_back({fmt::format("{} trained", run.placement.name), Align::right});
  }
  Table table(columns);
  const auto row = [&](std::string name, const auto& measure) {
    std::vector<std::string> cells{std::move(name)};
    for (const PlacementRun& run : result.runs) {
      for (const ProbeReport* report : {&run.before, &run.after}) cells.push_back(format_number(measure(*report)));
    }
    table.add(std::move(cells));
  };
  for (std::size_t l = 0; l < result.runs.front().before.layers.size(); ++l) {
    row(fmt::format("block {}", l), [&](const ProbeReport& r) { return r.layers[l].jacobian.identity_distance; });
  }
  table.add({});
  row("all blocks: tr(P)/N", [](const ProbeReport& r) { return r.product.trace_over_n; });
  row("median singular value", [](const ProbeReport& r) { return r.product.median_sigma; });
  row("effective rank", [](const ProbeReport& r) { return r.product.effective_rank; });
  row("gradient, input / output",
      [](const ProbeReport& r) { return r.gradient_norms.front() / r.gradient_norms.back(); });
  table.add({});
  std::vector<std::string> losses{"held-out loss, first / last"};
  for (const PlacementRun& run : result.runs) {
    losses.push_back(format_number(run.validation_losses.front()));
    losses.push_back(format_number(run.validation_losses.back()));
  }
  table.add(std::move(losses));

  return fmt::format(
      "{}\nIn every sublayer the tape's J and the one from the branch and the norm's formula differ by {:.0e} at "
      "most.\n"
      "One recipe is no law: depth, initialization, warm-up and optimizer move all of this.\n",
      table.text(style), largest_decomposition_error(result));
}

}  // namespace

std::unique_ptr<Command> demo_command() { return std::make_unique<Demo>(); }

}  // namespace jnorm
