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
  CHECK(refusal([](TrainingConfig& c) { c.beta2 = 1.0; }) == "beta2: expected a number in [0, 1), got 1");
  CHECK(refusal([](TrainingConfig& c) { c.adam_eps = 0.0; }) == "adam-eps: expected a positive finite number, got 0");
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
