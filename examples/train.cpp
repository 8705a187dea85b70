// `jnorm train`: trains a model on a task or a text, into a run folder.

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <jnorm/core/expect.hpp>
#include <jnorm/layers/load_model.hpp>
#include <jnorm/layers/memory_estimate.hpp>
#include <jnorm/layers/model_summary.hpp>
#include <jnorm/layers/training_run.hpp>

#include "commands.hpp"
#include "interrupt.hpp"
#include "setting_flags.hpp"

namespace jnorm {

namespace {

std::string status_of(const StepMetrics& metrics) {
  std::string text = fmt::format("loss {:.4f}", metrics.loss);
  if (metrics.validation) {
    text += fmt::format("  validation {:.4f}  accuracy {:.1f}%", metrics.validation->loss,
                        100.0 * metrics.validation->accuracy);
  }
  return text;
}

std::string early_stop_of(const Trainer& trainer) {
  const BestEvaluation& best = *trainer.best();
  return fmt::format(
      "stopped early after step {} of {}: no better validation loss in {} evaluations than {:.4f}, of step {} "
      "(best.safetensors)",
      trainer.steps_done(), trainer.config().training.steps, best.evaluations_since, best.loss, best.step);
}

class Train final : public Command {
 public:
  std::string name() const override { return "train"; }
  std::string summary() const override { return "trains a model on a built-in task or a text, into a run folder"; }
  std::string details() const override {
    return "Writes config.toml, metrics.jsonl, checkpoint.safetensors and, of the best validation loss, "
           "best.safetensors to the folder --out. A run that was stopped, by Control-C or otherwise, goes on "
           "with --resume DIR under its own configuration, to the same bits. With --from a "
           "new run begins with the weights of a model that was trained before, which brings its own configuration.";
  }

  void add_flags(Flags& flags) override {
    for (const auto group : {RunSetting::Group::model, RunSetting::Group::data, RunSetting::Group::training}) {
      add_setting_flags(flags, config_, group);
    }
    flags.group("Run");
    flags.add("--resume", resume_, "DIR", "go on with the run in this folder to its configured end");
  }

  bool computes_on_devices() const override { return true; }

  void run(const Session& session) override {
    TrainingRun run = make_run(session);
    Trainer& trainer = run.trainer();
    if (const std::string warning = trainer.data().warning(); !warning.empty()) warn(session, warning);
    if (run.complete()) session.note(fmt::format("the run in {} is complete: nothing to do", run.folder().path()));
    session.detail(size_in_words(trainer));

    StepMetrics last;
    {
      Progress progress = session.progress({.what = "training",
                                            .total = trainer.config().training.steps,
                                            .unit = "steps",
                                            .first = trainer.steps_done()});
      const InterruptGuard interrupt;
      run.train(
          [&](const StepMetrics& metrics) {
            if (last.step == 0) tell_missing_gradients(session, trainer);
            tell_diagnoses(session, trainer);
            last = metrics;
            if (metrics.validation) progress.print(fmt::format("step {}: {}", metrics.step, status_of(metrics)));
            progress.update(metrics.step, fmt::format("loss {:.4f}", metrics.loss));
          },
          &interrupt.requested());
      progress.finish();
    }
    if (trainer.stopped_early()) session.note(early_stop_of(trainer));
    if (last.loss_scaling && last.loss_scaling->overflows > 0) {
      session.note(
          fmt::format("{} of {} steps were skipped, since their gradients overflowed; the loss scale is {} now",
                      last.loss_scaling->overflows, last.step, last.loss_scaling->scale));
    }
    // The folder is the result and holds it already; the summary goes to standard output.
    if (session.common().json) {
      fmt::print("{}\n", json_of(run, last).dump(2));
    } else if (last.step > 0) {
      fmt::print("{}\nin {}: config.toml, metrics.jsonl, checkpoint.safetensors{}\n", status_of(last),
                 run.folder().path(), run.folder().has_best() ? ", best.safetensors" : "");
    }
  }

 private:
  TrainingRun make_run(const Session& session) {
    if (!resume_.empty()) {
      expect(session.common().out.empty(), "--resume goes on in its own folder: leave --out away");
      expect(!session.given("--force"), "--force: --resume replaces nothing; leave one of them away");
      for (const RunSetting& setting : run_settings()) {
        expect(!session.given("--" + setting.name), "--{}: the run goes on under its own configuration; leave it away",
               setting.name);
      }
      return TrainingRun::resume(resume_, session.device());
    }
    expect(!session.common().out.empty(), "--out: say which folder the run shall go to");
    const Existing existing = session.common().force ? Existing::replace : Existing::refuse;
    LoadedModel origin;
    if (!config_.training.from.empty()) {
      RunFolder::expect_free(session.common().out, existing);
      origin = load_any_model(config_.training.from);
      for (const std::string& note : origin.notes) session.note(fmt::format("{}: {}", config_.training.from, note));
      adopt(session, *origin.model);
    }
    apply_common_settings(config_, session);
    return TrainingRun::start(config_, session.common().out, existing, origin.model.get(), session.device());
  }

  // The run's model is the one that it begins with. Of the model's settings, those may be given that training may
  // choose, and others if they are its own.
  void adopt(const Session& session, const Transformer& origin) {
    RunConfig own = config_;
    own.model = origin.config();
    own.training.vocabulary = origin.config().vocabulary;
    const std::vector<const RunSetting*>& choices = training_choices();
    for (const RunSetting& setting : run_settings()) {
      const bool of_model = setting.group == RunSetting::Group::model || setting.name == "vocabulary";
      if (!of_model || setting.name == "dtype" || !session.given("--" + setting.name)) continue;
      const std::string given = setting.get(config_);
      if (std::find(choices.begin(), choices.end(), &setting) != choices.end()) setting.set(own, given);
      expect(setting.get(own) == given, "--{}: the model of {} has {}, got {}; leave it away{}", setting.name,
             config_.training.from, setting.get(own), given,
             setting.name == "context" ? ", or give --sequence-length" : "");
    }
    config_ = own;
  }

  // "12,800 parameters, 51 kB, on task copy of 6 symbols of 12; a step needs about 1.2 MB at the least"
  static std::string size_in_words(Trainer& trainer) {
    const ModelSummary model = jnorm::summary(trainer.model());
    return fmt::format(
        "{} parameters, {}, {} of them trained, on {}; a step needs at least {}", format_count(model.parameters()),
        format_bytes(model.parameter_bytes()),
        model.trainable_parameters() == model.parameters() ? "all" : format_count(model.trainable_parameters()),
        trainer.data().description(), format_bytes(static_cast<Index>(estimate_memory(trainer.config()).total())));
  }

  void warn(const Session& session, const std::string& warning) {
    session.note("warning: " + warning);
    warnings_.push_back(warning);
  }

  // Those that came since the last step: of the first step, and of the first evaluation.
  void tell_diagnoses(const Session& session, const Trainer& trainer) {
    for (; told_ < trainer.diagnoses().size(); ++told_) warn(session, trainer.diagnoses()[told_]);
  }

  // What a norm or softmax takes out is as it should be, and so are frozen weights: these are for those who want
  // details.
  void tell_missing_gradients(const Session& session, const Trainer& trainer) {
    for (const MissingGradient& missing : trainer.missing_gradients()) {
      const bool expected = missing.reason == NoGradient::zero_by_norm || missing.reason == NoGradient::frozen;
      expected ? session.detail(missing.sentence) : warn(session, missing.sentence);
    }
  }

  nlohmann::ordered_json json_of(TrainingRun& run, const StepMetrics& last) const {
    nlohmann::ordered_json json{{"folder", run.folder().path()},
                                {"steps", run.trainer().steps_done()},
                                {"parameters", run.trainer().model().parameter_count()}};
    if (run.trainer().stopped_early()) json["stopped_early"] = true;
    if (const auto& best = run.trainer().best()) json["best"] = {{"step", best->step}, {"validation_loss", best->loss}};
    if (!warnings_.empty()) json["warnings"] = warnings_;
    if (last.step > 0) json["last"] = nlohmann::ordered_json::parse(to_json_line(last));
    return json;
  }

  RunConfig config_;
  std::string resume_;
  std::vector<std::string> warnings_;  // that were told
  std::size_t told_ = 0;               // of the trainer's diagnoses
};

}  // namespace

std::unique_ptr<Command> train_command() { return std::make_unique<Train>(); }

}  // namespace jnorm
