#include <jnorm/layers/memory_estimate.hpp>

#include <doctest/doctest.h>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/error.hpp>
#include <jnorm/core/physical_memory.hpp>
#include <jnorm/layers/trainer.hpp>

#include "layers/small_run.hpp"

using namespace jnorm;

TEST_CASE("memory estimate: the weights of every architecture, to some percent") {
  for (const Architecture architecture : architectures()) {
    CAPTURE(to_string(architecture));
    TransformerConfig config = default_config(architecture);
    config.layers = 2;
    config.dim = 256;
    const auto bytes = static_cast<double>(4 * Transformer(config, Rng(1)).parameter_count());
    const double overhead = 4000.0 * (architecture == Architecture::vanilla ? 4.0 : 2.0);
    const double estimate = estimate_memory(config).weights - overhead;
    CHECK(estimate <= 1.01 * bytes);
    CHECK(estimate >= 0.97 * bytes);
  }
}

TEST_CASE("memory estimate: the matrices' numbers are those of the parameters with two axes, whatever the positions") {
  for (const Architecture architecture : architectures()) {
    for (const Positions positions : all_positions()) {
      CAPTURE(to_string(architecture));
      CAPTURE(to_string(positions));
      TransformerConfig config = default_config(architecture);
      config.positions = positions;
      const Transformer model(config, Rng(1));
      double numbers = 0.0;
      for (const Parameter* parameter : model.parameters()) {
        if (parameter->shape().rank() == 2) numbers += static_cast<double>(parameter->value().size());
      }
      CHECK(count_matrix_weights(config) == numbers);
    }
  }
}

TEST_CASE("memory estimate: training needs gradients and the optimizer's moments beside the weights") {
  RunConfig config = small_run();
  config.model.dim = 256;
  config.training.optimizer = OptimizerKind::adamw;
  const MemoryEstimate adam = estimate_memory(config);
  CHECK(adam.optimizer == 2.0 * adam.gradients);
  config.training.optimizer = OptimizerKind::sgd;
  CHECK(estimate_memory(config).optimizer == 0.0);
  config.training.momentum = 0.9;
  CHECK(estimate_memory(config).optimizer == adam.gradients);
}

TEST_CASE("memory estimate: a step's activations take no less than what is estimated, and not many times as much") {
  for (const Architecture architecture : architectures()) {
    CAPTURE(to_string(architecture));
    RunConfig config = small_run(1);
    apply_architecture(config.model, architecture);
    config.model.dim = 64;
    config.training.batch = 32;
    Trainer trainer(config);
    const Batch batch = make_data(config)->next(32);
    Tape tape;
    cross_entropy(trainer.model()(tape, batch), batch.targets);
    const auto held = static_cast<double>(tape.memory().value_bytes + tape.memory().saved_bytes);
    const double estimate = estimate_memory(trainer.config()).activations;
    CHECK(estimate <= held);
    CHECK(estimate >= 0.2 * held);
  }
}

TEST_CASE("memory estimate: a model beyond the machine's memory is refused before anything is made, in one line") {
  TransformerConfig config;
  config.layers = 2'000'000'000;
  try {
    const Transformer model(config, Rng(1));
    FAIL("it was made");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::argument);
    const std::string message = error.what();
    CHECK(message.starts_with("memory: this needs at least "));
    CHECK(message.find(" (weights ") != std::string::npos);
    CHECK(message.find("but the machine has ") != std::string::npos);
  }
}

TEST_CASE("memory estimate: a run whose batch alone is beyond the machine's memory is refused") {
  RunConfig config = small_run();
  config.training.batch = 2'000'000'000;
  config.training.task_length = 1'000'000;
  CHECK_THROWS_WITH_AS(Trainer{config}, doctest::Contains("activations "), Error);
}

TEST_CASE("memory estimate: what fits is let be") {
  CHECK_NOTHROW(expect_to_fit({.weights = 0.9 * static_cast<double>(physical_memory())}));
  CHECK_THROWS_AS(expect_to_fit({.weights = 1.1 * static_cast<double>(physical_memory())}), Error);
}
