#include <jnorm/layers/run_config.hpp>

#include <cmath>

#include <doctest/doctest.h>

#include <jnorm/core/error.hpp>

using namespace jnorm;

namespace {

std::string refusal(void (*change)(TrainingConfig&)) {
  TrainingConfig config;
  change(config);
  try {
    config.validate();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("run config: training sizes that aren't positive are refused by name") {
  CHECK(refusal([](TrainingConfig& c) { c.steps = 0; }) == "steps: expected a positive number, got 0");
  CHECK(refusal([](TrainingConfig& c) { c.batch = -2; }) == "batch: expected a positive number, got -2");
  CHECK(refusal([](TrainingConfig& c) { c.batch = Index{1} << 62; }) ==
        "batch: expected a number below 2^31, got 4611686018427387904");
  CHECK(refusal([](TrainingConfig& c) { c.evaluation_batches = 0; }) ==
        "evaluation-batches: expected a positive number, got 0");
  CHECK(refusal([](TrainingConfig& c) { c.checkpoint_interval = -1; }) ==
        "checkpoint-every: expected 0 or a positive number, got -1");
}

TEST_CASE("run config: rates that are NaN, infinite or negative are refused by name") {
  CHECK(refusal([](TrainingConfig& c) { c.learning_rate = std::nan(""); }) ==
        "learning-rate: expected a finite number that isn't negative, got nan");
  CHECK(refusal([](TrainingConfig& c) { c.clip_norm = INFINITY; }) ==
        "clip-norm: expected a finite number that isn't negative, got inf");
  CHECK(refusal([](TrainingConfig& c) { c.clip_value = -1; }) ==
        "clip-value: expected a finite number that isn't negative, got -1");
  CHECK(refusal([](TrainingConfig& c) { c.label_smoothing = 1.0; }) ==
        "label-smoothing: expected a number in [0, 1), got 1");
  CHECK(refusal([](TrainingConfig& c) { c.accumulate = 0; }) == "accumulate: expected a positive number, got 0");
  CHECK(refusal([](TrainingConfig& c) { c.loss_scale_minimum = 0.0; }) ==
        "loss-scale-minimum: expected a positive finite number, got 0");
  CHECK(refusal([](TrainingConfig& c) { c.loss_scale = 0.5; }) ==
        "loss-scale-minimum: expected no more than loss-scale 0.5, got 1");
  CHECK(refusal([](TrainingConfig& c) { c.patience = 2, c.evaluation_interval = 0; }) ==
        "patience: 2 needs evaluations on the way, but evaluate-every is 0");
  CHECK(refusal([](TrainingConfig& c) { c.beta2 = 1.0; }) == "beta2: expected a number in [0, 1), got 1");
  CHECK(refusal([](TrainingConfig& c) { c.adam_eps = 0.0; }) == "adam-eps: expected a positive finite number, got 0");
}

TEST_CASE("run config: patterns, and learning rates of their own, are read from text") {
  TrainingConfig config;
  config.freeze = "token_embedding.*,blocks.0.*";
  config.no_decay = "head.*";
  config.learning_rate_scales = "blocks.0.*=0.1,*=2";
  CHECK(config.frozen_patterns() == std::vector<std::string>{"token_embedding.*", "blocks.0.*"});
  const std::vector<ParameterGroup> groups = config.parameter_groups();
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].pattern == "head.*");
  CHECK(groups[0].weight_decay == 0.0);
  CHECK_FALSE(groups[0].learning_rate_scale.has_value());
  CHECK(groups[1].pattern == "blocks.0.*");
  CHECK(groups[1].learning_rate_scale == 0.1);
  CHECK(groups[2].learning_rate_scale == 2.0);
}

TEST_CASE("run config: patterns that aren't any are refused") {
  CHECK(refusal([](TrainingConfig& c) { c.freeze = std::string("a,,b"); }) ==
        "freeze: expected patterns separated by commas, got \"a,,b\"");
  CHECK(refusal([](TrainingConfig& c) { c.no_decay = std::string("a,"); }) ==
        "no-decay: expected patterns separated by commas, got \"a,\"");
  CHECK(refusal([](TrainingConfig& c) { c.learning_rate_scales = std::string("head.*"); }) ==
        "lr-scale: expected pattern=number, got \"head.*\"");
  CHECK(refusal([](TrainingConfig& c) { c.learning_rate_scales = std::string("head.*=x"); }) ==
        "lr-scale: expected a number, got \"x\"");
  CHECK(refusal([](TrainingConfig& c) { c.learning_rate_scales = std::string("head.*=-1"); }) ==
        "lr-scale: expected a finite number that isn't negative, got -1");
}

TEST_CASE("run config: a warm-up longer than a run that decays to 0 is refused") {
  CHECK(refusal([](TrainingConfig& c) { c.warmup_steps = 1001; }) ==
        "warmup: cosine decay expected no more than the 1000 steps, got 1001");
}

TEST_CASE("run config: a task and a text at once, and an unknown task, are refused") {
  CHECK(refusal([](TrainingConfig& c) { c.task = std::string("copy"), c.text = std::string("x"); }) ==
        "task and text: expected one of them, got task \"copy\" and text \"x\"");
  CHECK(refusal([](TrainingConfig& c) { c.task = std::string("coyp"); }) ==
        "task: expected one of copy, reverse, sort, modular_addition, got \"coyp\"; did you mean copy?");
}

TEST_CASE("run config: the data are the task's, with its options") {
  RunConfig config;
  config.training.task = "copy";
  config.training.task_length = 3;
  config.training.task_symbols = 5;
  CHECK(make_data(config)->description() == "task copy of 3 symbols of 5");
}

TEST_CASE("run config: smallest lengths reach the data") {
  RunConfig config;
  config.training.task = "copy";
  config.training.task_min_length = 2;
  CHECK(make_data(config)->description() == "task copy of 2 to 6 symbols of 12");
}

TEST_CASE("run config: the objective and its mask fraction reach the data") {
  RunConfig config;
  config.training.task = "copy";
  CHECK(make_data(config)->objective() == Objective::next_token);
  config.model.kind = ModelKind::encoder;
  CHECK(make_data(config)->context() == 13);
  config.training.mask_fraction = 2.0;
  CHECK_THROWS_WITH_AS(make_data(config), "data: the mask fraction must lie in (0, 1], but is 2", Error);
}

TEST_CASE("run config: a smallest length beyond the length, or of other data than there are, is refused") {
  CHECK(refusal([](TrainingConfig& c) { c.task = std::string("copy"), c.task_min_length = 7; }) ==
        "task-min-length: expected at most task-length 6, got 7");
  CHECK(refusal([](TrainingConfig& c) { c.task_min_length = -1; }) ==
        "task-min-length: expected 0 or a positive number, got -1");
  CHECK(refusal([](TrainingConfig& c) { c.task_min_length = 2; }) ==
        "task-min-length: there is no task; give a text's as min-length");
  CHECK(refusal([](TrainingConfig& c) { c.task = std::string("modular_addition"), c.task_min_length = 2; }) ==
        "task-min-length: all sequences of modular_addition have 3 tokens; leave it away");
  CHECK(refusal([](TrainingConfig& c) { c.task = std::string("copy"), c.min_length = 2; }) ==
        "min-length: it is a text's; give that of task copy as task-min-length");
  RunConfig config;
  config.training.min_length = 65;
  CHECK_THROWS_WITH_AS(config.validate(), "min-length: expected at most context 64, got 65", Error);
}

TEST_CASE("run config: a mask fraction outside (0, 1] is refused") {
  CHECK(refusal([](TrainingConfig& c) { c.mask_fraction = 0.0; }) ==
        "mask-fraction: expected a number in (0, 1], got 0");
  CHECK(refusal([](TrainingConfig& c) { c.mask_fraction = std::nan(""); }) ==
        "mask-fraction: expected a number in (0, 1], got nan");
}
