#include <jnorm/layers/run_config.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <jnorm/layers/names.hpp>
#include <jnorm/layers/parse_number.hpp>
#include <jnorm/layers/tasks.hpp>
#include <jnorm/layers/text_data.hpp>

namespace jnorm {

namespace {

constexpr Named<OptimizerKind> kOptimizers[] = {
    {"sgd", OptimizerKind::sgd}, {"adam", OptimizerKind::adam}, {"adamw", OptimizerKind::adamw}};

void expect_positive(const char* name, Index value) {
  expect(value > 0, "{}: expected a positive number, got {}", name, value);
}

void expect_not_negative(const char* name, Index value) {
  expect(value >= 0, "{}: expected 0 or a positive number, got {}", name, value);
}

void expect_amount(const char* name, double value) {
  expect(value >= 0.0 && std::isfinite(value), "{}: expected a finite number that isn't negative, got {}", name, value);
}

void expect_fraction(const char* name, double value) {
  expect(value >= 0.0 && value < 1.0, "{}: expected a number in [0, 1), got {}", name, value);
}

// The parts between commas; none of an empty text.
std::vector<std::string> split_at_commas(const char* name, const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    expect(!parts.back().empty(), "{}: expected patterns separated by commas, got {}", name, in_quotes(text));
    begin = end + 1;
  }
  return parts;
}

// "blocks.0.*=0.1"
ParameterGroup scaled_group(const std::string& text) {
  const std::size_t equals = text.find('=');
  expect(equals != std::string::npos && equals > 0, "lr-scale: expected pattern=number, got {}", in_quotes(text));
  const auto scale = parse_number<double>("lr-scale", text.substr(equals + 1));
  expect_amount("lr-scale", scale);
  return {.pattern = text.substr(0, equals), .learning_rate_scale = scale};
}

// Each smallest length belongs to one kind of data. With others it would do nothing, without a word.
void expect_lengths(const TrainingConfig& config) {
  const std::string& task = config.task;
  const Index of_task = config.task_min_length, of_text = config.min_length;
  expect_not_negative("task-min-length", of_task);
  expect(of_task <= config.task_length, "task-min-length: expected at most task-length {}, got {}", config.task_length,
         of_task);
  expect(of_task == 0 || !task.empty(), "task-min-length: there is no task; give a text's as min-length");
  expect(of_task == 0 || task != "modular_addition",
         "task-min-length: all sequences of modular_addition have 3 tokens; leave it away");
  expect_not_negative("sequence-length", config.sequence_length);
  expect(config.sequence_length == 0 || task.empty(), "sequence-length: it is a text's; task {} has task-length", task);
  expect_not_negative("min-length", of_text);
  expect(of_text == 0 || task.empty(), "min-length: it is a text's; give that of task {} as task-min-length", task);
}

}  // namespace

std::string to_string(OptimizerKind kind) { return name_of(kOptimizers, kind); }

OptimizerKind optimizer_kind_from_string(std::string_view name) { return value_named("optimizer", kOptimizers, name); }

std::vector<std::string> TrainingConfig::frozen_patterns() const { return split_at_commas("freeze", freeze); }

std::vector<ParameterGroup> TrainingConfig::parameter_groups() const {
  std::vector<ParameterGroup> groups;
  for (std::string& pattern : split_at_commas("no-decay", no_decay)) {
    groups.push_back({.pattern = std::move(pattern), .weight_decay = 0.0});
  }
  for (const std::string& scale : split_at_commas("lr-scale", learning_rate_scales)) {
    groups.push_back(scaled_group(scale));
  }
  return groups;
}

Schedule TrainingConfig::schedule() const {
  return {.decay = decay, .base = learning_rate, .warmup_steps = warmup_steps, .total_steps = steps};
}

void TrainingConfig::validate() const {
  expect(task.empty() || text.empty(), "task and text: expected one of them, got task {} and text {}", in_quotes(task),
         in_quotes(text));
  if (!task.empty()) expect_task(task);
  expect_positive("task-length", task_length);
  expect_lengths(*this);
  expect(mask_fraction > 0.0 && mask_fraction <= 1.0, "mask-fraction: expected a number in (0, 1], got {}",
         mask_fraction);
  expect_positive("task-symbols", task_symbols);
  expect_not_negative("vocabulary", vocabulary);
  expect_positive("modulus", modulus);
  expect_fraction("validation-fraction", validation_fraction);
  expect_positive("steps", steps);
  expect_positive("batch", batch);
  expect(batch < Index{1} << 31, "batch: expected a number below 2^31, got {}",
         batch);  // so that sizes fit into 64 bits
  expect_positive("accumulate", accumulate);
  expect_amount("learning-rate", learning_rate);
  expect_not_negative("warmup", warmup_steps);
  expect(warmup_steps <= steps || decay == Decay::constant || decay == Decay::inverse_sqrt,
         "warmup: {} decay expected no more than the {} steps, got {}", to_string(decay), steps, warmup_steps);
  expect_fraction("momentum", momentum);
  expect_fraction("beta1", beta1);
  expect_fraction("beta2", beta2);
  expect(adam_eps > 0.0 && std::isfinite(adam_eps), "adam-eps: expected a positive finite number, got {}", adam_eps);
  expect_amount("weight-decay", weight_decay);
  expect_fraction("label-smoothing", label_smoothing);
  expect_amount("clip-value", clip_value);
  expect_amount("clip-norm", clip_norm);
  frozen_patterns();
  parameter_groups();
  expect_amount("loss-scale", loss_scale);
  expect_positive("loss-scale-interval", loss_scale_interval);
  expect(loss_scale_minimum > 0.0 && std::isfinite(loss_scale_minimum),
         "loss-scale-minimum: expected a positive finite number, got {}", loss_scale_minimum);
  expect(loss_scale == 0.0 || loss_scale_minimum <= loss_scale,
         "loss-scale-minimum: expected no more than loss-scale {}, got {}", loss_scale, loss_scale_minimum);
  expect_not_negative("evaluate-every", evaluation_interval);
  expect_positive("evaluation-batches", evaluation_batches);
  expect_not_negative("patience", patience);
  expect(patience == 0 || evaluation_interval > 0, "patience: {} needs evaluations on the way, but evaluate-every is 0",
         patience);
  expect_not_negative("checkpoint-every", checkpoint_interval);
}

void RunConfig::validate() const {
  model.validate();
  training.validate();
  expect(training.sequence_length <= model.context, "sequence-length: expected at most context {}, got {}",
         model.context, training.sequence_length);
  const Index longest = training.sequence_length == 0 ? model.context : training.sequence_length;
  expect(training.min_length <= longest, "min-length: expected at most {} {}, got {}",
         training.sequence_length == 0 ? "context" : "sequence-length", longest, training.min_length);
}

std::unique_ptr<DataSource> make_data(const RunConfig& config) {
  const TrainingConfig& training = config.training;
  const Rng rng = Rng(training.seed).split("data");
  const ObjectiveOptions objective{.objective = objective_of(config.model.kind),
                                   .mask_fraction = training.mask_fraction};
  if (!training.task.empty()) {
    const TaskOptions options{.length = training.task_length,
                              .min_length = training.task_min_length,
                              .symbols = training.task_symbols,
                              .modulus = training.modulus,
                              .validation_fraction = training.validation_fraction,
                              .objective = objective};
    return make_task(training.task, options, rng);
  }
  Text text = training.text.empty() ? Text::fortunes() : Text::from_file(training.text);
  const TextData::Options options{
      .context = training.sequence_length == 0 ? config.model.context : training.sequence_length,
      .validation_fraction = training.validation_fraction,
      .min_length = training.min_length,
      .objective = objective};
  return std::make_unique<TextData>(std::move(text), options, rng);
}

}  // namespace jnorm
