#pragma once

#include <algorithm>

#include <jnorm/layers/run_config.hpp>

// The smallest run that has all parts of a real one: two blocks on the copy task, a few hundred microseconds a step.
inline jnorm::RunConfig small_run(jnorm::Index steps = 10) {
  jnorm::RunConfig config;
  config.model = {.layers = 2, .dim = 8, .heads = 2};
  config.training.task = "copy";
  config.training.task_length = 2;
  config.training.task_symbols = 3;
  config.training.steps = steps;
  config.training.batch = 4;
  config.training.learning_rate = 1e-2;
  config.training.warmup_steps = std::min<jnorm::Index>(2, steps);
  config.training.evaluation_interval = 4;
  config.training.evaluation_batches = 2;
  config.training.checkpoint_interval = 3;
  return config;
}
