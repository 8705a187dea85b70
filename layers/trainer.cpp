#include <jnorm/layers/trainer.hpp>

#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/expect.hpp>
#include <jnorm/layers/clip.hpp>
#include <jnorm/layers/non_finite.hpp>

namespace jnorm {

namespace {

using Clock = std::chrono::steady_clock;

// The data decide the vocabulary and, for a task, the context.
RunConfig fitted(RunConfig config, const DataSource& data) {
  config.model.vocabulary = data.vocabulary();
  config.model.context = data.context();
  config.validate();
  return config;
}

std::unique_ptr<DataSource> validated_data(const RunConfig& config) {
  config.validate();
  return make_data(config);
}

std::unique_ptr<Optimizer> make_optimizer(const TrainingConfig& training, const Module& model) {
  switch (training.optimizer) {
    case OptimizerKind::sgd:
      return std::make_unique<Sgd>(model.parameters(), SgdOptions{.learning_rate = training.learning_rate,
                                                                  .momentum = training.momentum,
                                                                  .weight_decay = training.weight_decay});
    case OptimizerKind::adam:
      return std::make_unique<Adam>(model.parameters(), AdamOptions{.learning_rate = training.learning_rate,
                                                                    .beta1 = training.beta1,
                                                                    .beta2 = training.beta2,
                                                                    .eps = training.adam_eps,
                                                                    .weight_decay = training.weight_decay});
    case OptimizerKind::adamw:
      return std::make_unique<AdamW>(model.parameters(), AdamWOptions{.learning_rate = training.learning_rate,
                                                                      .beta1 = training.beta1,
                                                                      .beta2 = training.beta2,
                                                                      .eps = training.adam_eps,
                                                                      .weight_decay = training.weight_decay});
  }
  fail(ErrorKind::argument, "there is no optimizer {}", static_cast<int>(training.optimizer));
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

[[noreturn]] void fail_non_finite(Index step, std::string_view what, double value, std::string where) {
  if (where.empty()) where = "each of its terms is finite, their sum is not";
  fail(ErrorKind::non_finite, "step {}: {} is {}; {}; try a lower learning rate or a longer warm-up", step, what,
       to_words(value), where);
}

}  // namespace

Trainer::Trainer(const RunConfig& config) : Trainer(config, validated_data(config)) {}

Trainer::Trainer(const RunConfig& config, std::unique_ptr<DataSource> data)
    : config_(fitted(config, *data)),
      data_(std::move(data)),
      model_(config_.model, Rng(config_.training.seed).split("weights")),
      optimizer_(make_optimizer(config_.training, model_)),
      schedule_(config_.training.schedule()) {}

StepMetrics Trainer::step() {
  if (done()) fail(ErrorKind::state, "trainer: all {} steps are done", steps_done_);
  const Clock::time_point start = Clock::now();
  const Batch batch = data_->next(config_.training.batch);
  StepMetrics metrics;
  tape_.reset();
  const Var loss = cross_entropy(model_(tape_, batch.tokens), batch.targets);
  metrics.loss = loss.item();
  if (!std::isfinite(metrics.loss))
    fail_non_finite(steps_done_ + 1, "the loss", metrics.loss, describe_non_finite_value(tape_));
  metrics.gradient_norm = backward(loss);
  metrics.learning_rate = schedule_.learning_rate(steps_done_);
  optimizer_->set_learning_rate(metrics.learning_rate);
  optimizer_->step();

  metrics.step = ++steps_done_;
  metrics.seconds = seconds_since(start);
  metrics.tokens_per_second = static_cast<double>(batch.tokens.size()) / metrics.seconds;
  if (data_->has_validation() && is_due(config_.training.evaluation_interval)) metrics.validation = evaluate();
  return metrics;
}

double Trainer::backward(const Var& loss) {
  const double limit =
      config_.training.clip_norm > 0.0 ? config_.training.clip_norm : std::numeric_limits<double>::infinity();
  tape_.backward(loss);
  if (!std::exchange(explained_, true)) missing_gradients_ = jnorm::missing_gradients(loss, model_.parameters());
  const double norm = clip_gradient_norm(model_.parameters(), limit);
  if (std::isfinite(norm)) return norm;
  const std::string where = describe_non_finite_gradient(loss);
  for (Parameter* parameter : model_.parameters()) parameter->clear_gradient();
  fail_non_finite(steps_done_ + 1, "the norm of the gradients", norm, where);
}

Evaluation Trainer::evaluate() {
  Evaluation sum;
  double targets = 0.0;
  for (Index i = 0; i < config_.training.evaluation_batches; ++i) {
    const Batch batch = data_->validation(config_.training.batch, i);
    tape_.reset();
    const Var logits = model_(tape_, batch.tokens);
    const double loss = cross_entropy(logits, batch.targets).item();
    if (!std::isfinite(loss))
      fail_non_finite(steps_done_, "the validation loss", loss, describe_non_finite_value(tape_));
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
    optimizer_->load_state(checkpoint.optimizer);
  } catch (const Error& error) {
    fail(ErrorKind::file, "'{}': {}", name_for_errors, error.what());
  }
  load_weights(model_, checkpoint, name_for_errors);
  data_->set_state(checkpoint.data_state);
  steps_done_ = checkpoint.step;
}

}  // namespace jnorm
