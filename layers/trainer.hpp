#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <jnorm/autograd/missing_gradients.hpp>
#include <jnorm/autograd/tape.hpp>
#include <jnorm/layers/checkpoint.hpp>
#include <jnorm/layers/data_source.hpp>
#include <jnorm/layers/loss_scaler.hpp>
#include <jnorm/layers/metrics.hpp>
#include <jnorm/layers/optimizer.hpp>
#include <jnorm/layers/run_config.hpp>
#include <jnorm/layers/transformer.hpp>

namespace jnorm {

// Trains one model, a step at a time: forward and backward of each of its batches, clipping, the schedule's learning
// rate, the optimizer. All that it does follows from its configuration. In the steady state a step asks the system for
// no tensor memory.
//
// Where the loss is scaled, a step whose gradients overflow is skipped: it counts as a step of the run, so that a run
// ends, but neither for the optimizer nor for the schedule, which follows the updates that were made.
class Trainer {
 public:
  // Loads the data, and builds the model and the optimizer, on the device. Throws what they throw, before anything is
  // trained.
  explicit Trainer(const RunConfig& config, Device device = Device::cpu());
  // The same on other data than the configuration's.
  Trainer(const RunConfig& config, std::unique_ptr<DataSource> data, Device device = Device::cpu());

  const RunConfig& config() const { return config_; }  // with what the data decided
  Transformer& model() { return model_; }
  const DataSource& data() const { return *data_; }
  Index steps_done() const { return steps_done_; }
  bool done() const { return steps_done_ == config_.training.steps || stopped_early(); }
  // Whether the validation loss got no better in as many evaluations as the configuration has patience for.
  bool stopped_early() const;
  const std::optional<BestEvaluation>& best() const { return best_; }  // of the evaluations of steps

  // Begins with the weights of a model that was trained before, whose configuration must be this one, but for what
  // training may choose. Throws Error(file) that says what differs.
  void begin_with(const Transformer& origin, std::string_view name_for_errors);

  // The next step. After every evaluation_interval steps and after the last one it evaluates too, if data are held out.
  // Throws Error(state) once done, and Error(non_finite) if the loss or a gradient isn't finite, naming the operation,
  // module path and source line where that began; the weights are those of the step before then.
  StepMetrics step();

  // Of the parameters that had no gradient, or zeros alone, in the first step that this trainer made: why. Empty before
  // that.
  const std::vector<MissingGradient>& missing_gradients() const { return missing_gradients_; }

  // Mistakes around normalization that the first step and the first evaluation of this trainer showed; see diagnose().
  const std::vector<std::string>& diagnoses() const { return diagnoses_; }

  // The model on held-out batches, always the same ones. Changes neither the weights nor what is drawn next. Throws
  // Error(state) if nothing is held out, and Error(non_finite) if the loss isn't finite.
  Evaluation evaluate();

  bool checkpoint_due() const { return is_due(config_.training.checkpoint_interval); }
  Checkpoint checkpoint() const;  // throws Error(non_finite) if a weight isn't finite: no run can go on from it
  // Goes on where a checkpoint of the same configuration and data was written. Throws Error(file) that says what
  // differs.
  void restore(const Checkpoint& checkpoint, std::string_view name_for_errors);

 private:
  bool is_due(Index interval) const;
  void load_training_state(const Checkpoint& checkpoint);
  void start_random();
  void draw_micro_batches();
  double backward();                  // returns the loss
  void update(StepMetrics& metrics);  // or skips it
  double clip();                      // returns the norm of all gradients together, before clipping
  Index updates_done() const { return steps_done_ - (loss_scaler_ ? loss_scaler_->overflows() : 0); }
  void note(const Evaluation& evaluation);
  [[noreturn]] void fail_non_finite_gradient(double norm);
  void clear_gradients();
  void explain_step(const Var& loss);
  void explain_evaluation();

  RunConfig config_;
  std::unique_ptr<DataSource> data_;
  Transformer model_;
  std::unique_ptr<Optimizer> optimizer_;
  Schedule schedule_;
  std::optional<LossScaler> loss_scaler_;
  Tape tape_;
  std::vector<Batch> micro_batches_;  // of the latest step
  bool explained_ = false;            // missing_gradients_ is filled
  bool evaluation_explained_ = false;
  std::vector<MissingGradient> missing_gradients_;
  std::vector<std::string> diagnoses_;
  Index steps_done_ = 0;
  std::optional<BestEvaluation> best_;
};

}  // namespace jnorm
