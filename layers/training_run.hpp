#pragma once

#include <atomic>
#include <functional>
#include <string>

#include <jnorm/layers/run_folder.hpp>
#include <jnorm/layers/trainer.hpp>

namespace jnorm {

// A training run and its folder. Killed at any moment, it can be resumed, and ends with the same checkpoint and the
// same metrics, times apart, as one that was never stopped.
class TrainingRun {
 public:
  // Checks everything (the folder, the configuration, the data), then starts the folder. Throws as RunFolder and
  // Trainer do; nothing was written then. The weights are those of `origin`, if it is given, or of the model that the
  // configuration names as its `from`, or random.
  static TrainingRun start(RunConfig config, const std::string& path, Existing existing = Existing::refuse,
                           const Transformer* origin = nullptr, Device device = Device::cpu());
  // Goes on from the folder's last checkpoint, or from the beginning if there was none yet, under the folder's own
  // configuration. Nothing is changed if something doesn't fit.
  static TrainingRun resume(const std::string& path, Device device = Device::cpu());

  Trainer& trainer() { return *trainer_; }
  const RunFolder& folder() const { return folder_; }
  bool complete() const { return trainer_->done(); }  // a complete run has nothing to go on with

  // Trains to the configured end, or until patience for a better validation loss is lost. `observe` gets every step's
  // metrics. Once `stop` is true (a signal handler may set it), the step in progress is finished, a checkpoint written,
  // and Error(interrupted) thrown. Throws as Trainer::step does, and Error(io) on a full disk; the last checkpoint is
  // whole then. A folder that start made is removed again if not even the first step could be made.
  void train(const std::function<void(const StepMetrics&)>& observe = {}, const std::atomic<bool>* stop = nullptr);

 private:
  TrainingRun(std::unique_ptr<Trainer> trainer, RunFolder folder)
      : trainer_(std::move(trainer)), folder_(std::move(folder)) {}

  StepMetrics step();
  void save(const StepMetrics& metrics, bool stopped);

  std::unique_ptr<Trainer> trainer_;
  RunFolder folder_;
  bool started_here_ = false;  // and not resumed
};

}  // namespace jnorm
