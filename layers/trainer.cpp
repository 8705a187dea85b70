#include <jnorm/layers/trainer.hpp>

#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/expect.hpp>
#include <jnorm/layers/accumulation.hpp>
#include <jnorm/layers/clip.hpp>
#include <jnorm/layers/diagnosis.hpp>
#include <jnorm/layers/evaluation_mode.hpp>
#include <jnorm/layers/memory_estimate.hpp>
#include <jnorm/layers/non_finite.hpp>

namespace jnorm {

namespace {

using Clock = std::chrono::steady_clock;

// The data decide the vocabulary and the context, unless the run does, or the model was trained before.
RunConfig fitted(RunConfig config, const DataSource& data) {
  TransformerConfig& model = config.model;
  model.vocabulary = config.training.vocabulary == 0 ? data.vocabulary() : config.training.vocabulary;
  if (config.training.from.empty() && config.training.sequence_length == 0) model.context = data.context();
  config.validate();
  expect_vocabulary(model.vocabulary, data);
  expect(data.context() <= model.context, "context: the model has {} positions, but the data need {}", model.context,
         data.context());
  expect_to_fit(estimate_memory(config));
  expect(config.training.patience == 0 || data.has_validation(),
         "patience: {} needs a validation loss, but no part of the data is held out", config.training.patience);
  return config;
}

std::unique_ptr<DataSource> validated_data(const RunConfig& config) {
  config.validate();
  return make_data(config);
}

void freeze(const TrainingConfig& training, const Module& model) {
  for (const std::string& pattern : training.frozen_patterns()) {
    for (Parameter* parameter : parameters_that_fit("freeze", pattern, model.parameters())) {
      parameter->set_trainable(false);
    }
  }
}

Transformer& moved(Transformer& model, Device device) {
  model.to(device);
  return model;
}

// An optimizer of the parameters that train.
std::unique_ptr<Optimizer> make_optimizer(const TrainingConfig& training, const Module& model) {
  freeze(training, model);
  std::vector<Parameter*> trained = model.parameters();
  std::erase_if(trained, [](const Parameter* parameter) { return !parameter->trainable(); });
  expect(!trained.empty(), "freeze: {} leaves nothing to train", in_quotes(training.freeze));
  switch (training.optimizer) {
    case OptimizerKind::sgd:
      return std::make_unique<Sgd>(trained, SgdOptions{.learning_rate = training.learning_rate,
                                                       .momentum = training.momentum,
                                                       .weight_decay = training.weight_decay,
                                                       .groups = training.parameter_groups()});
    case OptimizerKind::adam:
      return std::make_unique<Adam>(trained, AdamOptions{.learning_rate = training.learning_rate,
                                                         .beta1 = training.beta1,
                                                         .beta2 = training.beta2,
                                                         .eps = training.adam_eps,
                                                         .weight_decay = training.weight_decay,
                                                         .groups = training.parameter_groups()});
    case OptimizerKind::adamw:
      return std::make_unique<AdamW>(trained, AdamWOptions{.learning_rate = training.learning_rate,
                                                           .beta1 = training.beta1,
                                                           .beta2 = training.beta2,
                                                           .eps = training.adam_eps,
                                                           .weight_decay = training.weight_decay,
                                                           .groups = training.parameter_groups()});
  }
  fail(ErrorKind::argument, "there is no optimizer {}", static_cast<int>(training.optimizer));
}

// Only float16's range is so narrow that gradients need it.
std::optional<LossScaler> make_loss_scaler(const RunConfig& config) {
  const TrainingConfig& training = config.training;
  if (training.loss_scale == 0.0 && config.model.precision != Precision::float16) return std::nullopt;
  const double initial = training.loss_scale == 0.0 ? LossScalerOptions{}.initial_scale : training.loss_scale;
  return LossScaler({.initial_scale = initial,
                     .growth_interval = training.loss_scale_interval,
                     .minimum = training.loss_scale_minimum});
}

// How many steps an optimizer made: those of the parameter that had a gradient most often.
Index most_steps(const NamedTensors& optimizer_state) {
  Index most = 0;
  for (const auto& [name, tensor] : optimizer_state) {
    if (!name.ends_with(".steps") || tensor.dtype() != DType::int32 || tensor.size() != 1) continue;
    most = std::max(most, static_cast<Index>(*tensor.data<std::int32_t>()));
  }
  return most;
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

[[noreturn]] void fail_non_finite(Index step, std::string_view what, double value, std::string where) {
  if (where.empty()) where = "each of its terms is finite, their sum is not";
  fail(ErrorKind::non_finite, "step {}: {} is {}; {}; try a lower learning rate or a longer warm-up", step, what,
       to_words(value), where);
}

}  // namespace

Trainer::Trainer(const RunConfig& config, Device device) : Trainer(config, validated_data(config), device) {}

Trainer::Trainer(const RunConfig& config, std::unique_ptr<DataSource> data, Device device)
    : config_(fitted(config, *data)),
      data_(std::move(data)),
      model_(config_.model, Rng(config_.training.seed).split("weights")),
      optimizer_(make_optimizer(config_.training, moved(model_, device))),
      schedule_(config_.training.schedule()),
      loss_scaler_(make_loss_scaler(config_)) {}

void Trainer::begin_with(const Transformer& origin, std::string_view name_for_errors) {
  RunConfig there = config_;
  there.model = origin.config();
  for (const RunSetting* setting : training_choices()) setting->set(there, setting->get(config_));
  const std::string differences = differing_settings(there, config_, {RunSetting::Group::model});
  if (!differences.empty()) {
    fail(ErrorKind::file, "'{}' is another model: {}; go on with its own configuration", name_for_errors, differences);
  }
  model_.load_state(origin.state());
}

StepMetrics Trainer::step() {
  if (stopped_early()) fail(ErrorKind::state, "trainer: it stopped early, after step {}", steps_done_);
  if (done()) fail(ErrorKind::state, "trainer: all {} steps are done", steps_done_);
  const Clock::time_point start = Clock::now();
  draw_micro_batches();
  start_random();
  StepMetrics metrics;
  metrics.loss = backward();
  update(metrics);

  metrics.step = ++steps_done_;
  metrics.seconds = seconds_since(start);
  Index tokens = 0;
  for (const Batch& batch : micro_batches_) tokens += count_tokens(batch);
  metrics.tokens_per_second = static_cast<double>(tokens) / metrics.seconds;
  if (data_->has_validation() && is_due(config_.training.evaluation_interval)) {
    metrics.validation = evaluate();
    note(*metrics.validation);
  }
  return metrics;
}

// What dropout draws follows from the seed and the step alone.
void Trainer::start_random() {
  model_.start_random(Rng(config_.training.seed).split("dropout").split(std::to_string(steps_done_)));
}

void Trainer::draw_micro_batches() {
  micro_batches_.clear();
  for (Index i = 0; i < config_.training.accumulate; ++i) micro_batches_.push_back(data_->next(config_.training.batch));
}

double Trainer::backward() {
  const StepLoss loss = accumulate_gradients(
      tape_, micro_batches_, [&](const Batch& batch) { return model_(tape_, batch); },
      {.label_smoothing = config_.training.label_smoothing, .scale = loss_scaler_ ? loss_scaler_->scale() : 1.0});
  if (!std::isfinite(loss.mean)) {
    clear_gradients();
    fail_non_finite(steps_done_ + 1, "the loss", loss.mean, describe_non_finite_value(tape_));
  }
  if (!std::exchange(explained_, true)) explain_step(loss.last);
  return loss.mean;
}

void Trainer::explain_step(const Var& loss) {
  missing_gradients_ = jnorm::missing_gradients(loss, model_.parameters());
  for (auto& lines : {diagnose(config_.model), diagnose(tape_, micro_batches_.back())}) {
    diagnoses_.insert(diagnoses_.end(), lines.begin(), lines.end());
  }
}

void Trainer::explain_evaluation() {
  for (std::string& line : diagnose_evaluation(tape_)) diagnoses_.push_back(std::move(line));
}

void Trainer::update(StepMetrics& metrics) {
  metrics.learning_rate = schedule_.learning_rate(updates_done());
  optimizer_->set_learning_rate(metrics.learning_rate);
  if (!loss_scaler_) {
    metrics.gradient_norm = clip();
    optimizer_->step();
    return;
  }
  LossScaling scaling{.scale = loss_scaler_->scale()};
  const bool finite = loss_scaler_->unscale(model_.parameters());
  metrics.gradient_norm = finite ? clip() : std::numeric_limits<double>::infinity();
  scaling.skipped = !loss_scaler_->step(*optimizer_);
  loss_scaler_->update();
  scaling.overflows = loss_scaler_->overflows();
  metrics.loss_scaling = scaling;
}

double Trainer::clip() {
  const TrainingConfig& training = config_.training;
  const double limit = training.clip_norm > 0.0 ? training.clip_norm : std::numeric_limits<double>::infinity();
  double norm = 0.0;
  if (training.clip_value > 0.0) {
    norm = gradient_norm(model_.parameters());
    clip_gradient_value(model_.parameters(), training.clip_value);
    clip_gradient_norm(model_.parameters(), limit);
  } else {
    norm = clip_gradient_norm(model_.parameters(), limit);
  }
  if (!std::isfinite(norm)) fail_non_finite_gradient(norm);
  return norm;
}

void Trainer::fail_non_finite_gradient(double norm) {
  std::string where;
  start_random();  // the same forward again
  for (const Batch& batch : micro_batches_) {
    tape_.reset();
    where = describe_non_finite_gradient(summed_loss(model_(tape_, batch), batch, config_.training.label_smoothing));
    if (!where.empty()) break;
  }
  clear_gradients();
  fail_non_finite(steps_done_ + 1, "the norm of the gradients", norm, where);
}

void Trainer::clear_gradients() {
  for (Parameter* parameter : model_.parameters()) parameter->clear_gradient();
}

void Trainer::note(const Evaluation& evaluation) {
  if (!best_ || evaluation.loss < best_->loss) {
    best_ = {.loss = evaluation.loss, .step = steps_done_};
  } else {
    ++best_->evaluations_since;
  }
}

bool Trainer::stopped_early() const {
  return config_.training.patience > 0 && best_ && best_->evaluations_since >= config_.training.patience;
}

Evaluation Trainer::evaluate() {
  const EvaluationMode evaluation(model_);
  Evaluation sum;
  double targets = 0.0;
  for (Index i = 0; i < config_.training.evaluation_batches; ++i) {
    const Batch batch = data_->validation(config_.training.batch, i);
    tape_.reset();
    const Var logits = model_(tape_, batch);
    const double loss = cross_entropy(logits, batch.targets.to(model_.device())).item();
    if (!std::isfinite(loss))
      fail_non_finite(steps_done_, "the validation loss", loss, describe_non_finite_value(tape_));
    if (!std::exchange(evaluation_explained_, true)) explain_evaluation();
    const auto weight = static_cast<double>(count_targets(batch.targets));  // batches may differ in it
    sum.loss += weight * loss;
    sum.accuracy += weight * accuracy(logits.value(), batch.targets);
    targets += weight;
  }
  if (targets == 0.0) return {};
  return {.loss = sum.loss / targets, .accuracy = sum.accuracy / targets};
}

bool Trainer::is_due(Index interval) const { return done() || (interval > 0 && steps_done_ % interval == 0); }

Checkpoint Trainer::checkpoint() const {
  const std::string where = describe_non_finite_weight(model_.state());
  if (!where.empty()) {
    fail(ErrorKind::non_finite,
         "step {}: after the optimizer's update {}; try a lower learning rate or a longer warm-up", steps_done_, where);
  }
  return {.config = config_,
          .data = data_->description(),
          .data_state = data_->state(),
          .step = steps_done_,
          .loss_scaler = loss_scaler_ ? std::optional(loss_scaler_->state()) : std::nullopt,
          .best = best_,
          .weights = model_.state(),
          .optimizer = optimizer_->state()};
}

void Trainer::restore(const Checkpoint& checkpoint, std::string_view name_for_errors) {
  if (checkpoint.data != data_->description()) {
    fail(ErrorKind::file, "'{}' was trained on other data: {}, but these are {}", name_for_errors, checkpoint.data,
         data_->description());
  }
  using Group = RunSetting::Group;
  const std::string differences =
      differing_settings(checkpoint.config, config_, {Group::model, Group::data, Group::training});
  if (!differences.empty()) {
    fail(ErrorKind::file, "'{}' is of another run: {}; go on with its own configuration", name_for_errors, differences);
  }
  try {
    load_training_state(checkpoint);
  } catch (const Error& error) {
    fail(ErrorKind::file, "'{}': {}", name_for_errors, error.what());
  }
  load_weights(model_, checkpoint, name_for_errors);
  data_->set_state(checkpoint.data_state);
}

void Trainer::load_training_state(const Checkpoint& checkpoint) {
  expect(checkpoint.loss_scaler.has_value() == loss_scaler_.has_value(), "its metadata {} a loss scale, but its run {}",
         checkpoint.loss_scaler ? "have" : "lack", loss_scaler_ ? "has one" : "has none");
  const Index skipped = checkpoint.loss_scaler ? checkpoint.loss_scaler->overflows : 0;
  const Index updates = most_steps(checkpoint.optimizer);
  expect(updates == checkpoint.step - skipped, "it is of step {}, {} of them skipped, but its optimizer made {}",
         checkpoint.step, skipped, updates);
  optimizer_->load_state(checkpoint.optimizer);
  if (loss_scaler_) loss_scaler_->set_state(*checkpoint.loss_scaler);
  steps_done_ = checkpoint.step;
  best_ = checkpoint.best;
}

}  // namespace jnorm
