#include <jnorm/layers/training_run.hpp>

#include <filesystem>

#include <jnorm/core/expect.hpp>
#include <jnorm/layers/load_model.hpp>

namespace jnorm {

namespace {

// A path from the root, since a run may be resumed from another folder; and no file that the run would write.
void settle(std::string& input, const std::string& folder) {
  if (input.empty()) return;
  input = std::filesystem::absolute(input).string();
  const bool is_run = std::filesystem::is_directory(input);
  RunFolder::expect_not_written(folder, is_run ? input + "/checkpoint.safetensors" : input);
}

void begin(Trainer& trainer, const Transformer* origin) {
  const std::string& from = trainer.config().training.from;
  if (origin != nullptr) {
    trainer.begin_with(*origin, from);
  } else if (!from.empty()) {
    trainer.begin_with(*load_any_model(from).model, from);
  }
}

}  // namespace

TrainingRun TrainingRun::start(RunConfig config, const std::string& path, Existing existing, const Transformer* origin,
                               Device device) {
  RunFolder::expect_free(path, existing);
  settle(config.training.text, path);
  settle(config.training.from, path);
  auto trainer = std::make_unique<Trainer>(config, device);
  begin(*trainer, origin);
  RunFolder folder = RunFolder::create(path, trainer->config(), existing);
  // The folder owns what it began with: the origin may change before the first checkpoint.
  if (!trainer->config().training.from.empty()) folder.save(trainer->checkpoint());
  TrainingRun run(std::move(trainer), std::move(folder));
  run.started_here_ = true;
  return run;
}

TrainingRun TrainingRun::resume(const std::string& path, Device device) {
  RunFolder folder = RunFolder::open(path);
  auto trainer = std::make_unique<Trainer>(folder.config(), device);
  if (folder.has_checkpoint()) {
    trainer->restore(load_checkpoint(folder.checkpoint_path()), folder.checkpoint_path());
  } else {
    begin(*trainer, nullptr);
  }
  folder.rewind(trainer->steps_done());
  return {std::move(trainer), std::move(folder)};
}

void TrainingRun::train(const std::function<void(const StepMetrics&)>& observe, const std::atomic<bool>* stop) {
  while (!trainer_->done()) {
    const StepMetrics metrics = step();
    folder_.append(metrics);
    const bool stopped = stop != nullptr && stop->load() && !trainer_->done();
    save(metrics, stopped);
    if (observe) observe(metrics);
    if (stopped) {
      fail(ErrorKind::interrupted, "stopped after step {} of {}; resume '{}' to go on", metrics.step,
           trainer_->config().training.steps, folder_.path());
    }
  }
}

StepMetrics TrainingRun::step() {
  try {
    return trainer_->step();
  } catch (...) {
    if (started_here_ && trainer_->steps_done() == 0) folder_.discard();
    throw;
  }
}

void TrainingRun::save(const StepMetrics& metrics, bool stopped) {
  const bool due = stopped || trainer_->checkpoint_due();
  const bool is_best = metrics.validation && trainer_->best()->step == metrics.step;
  if (!due && !is_best) return;
  const Checkpoint checkpoint = trainer_->checkpoint();
  if (is_best) folder_.save_best(checkpoint);
  if (due) folder_.save(checkpoint);
}

}  // namespace jnorm
