// Whole models on a device: what they learn, measure and say is what they do on the CPU.

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <jnorm/layers/clip.hpp>
#include <jnorm/layers/generate.hpp>
#include <jnorm/layers/probe.hpp>
#include <jnorm/layers/trainer.hpp>

#include "cuda/device_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

RunConfig tiny_run(Architecture architecture, Index steps) {
  RunConfig config;
  config.model = default_config(architecture);
  config.model.layers = 1;
  config.model.dim = 8;
  config.model.heads = 2;
  config.model.dtype = DType::float64;
  config.training.task = "copy";
  config.training.task_length = 2;
  config.training.task_symbols = 3;
  config.training.batch = 2;
  config.training.steps = steps;
  config.training.clip_norm = 0.5;
  config.training.evaluation_interval = 0;
  return config;
}

struct Course {
  std::vector<double> losses, norms;
};

Course course_of(const RunConfig& config, Device device) {
  Trainer trainer(config, device);
  Course course;
  while (!trainer.done()) {
    const StepMetrics metrics = trainer.step();
    course.losses.push_back(metrics.loss);
    course.norms.push_back(metrics.gradient_norm);
  }
  return course;
}

// The largest relative difference of losses and of gradients' norms.
double difference(const RunConfig& config) {
  const Course there = course_of(config, test_device()), here = course_of(config, Device::cpu());
  return std::max(distance(there.losses, here.losses), distance(there.norms, here.norms));
}

}  // namespace

TEST_CASE("training on a device: every architecture's losses and gradients are the CPU's") {
  for (const Architecture architecture : architectures()) {
    CAPTURE(to_string(architecture));
    CHECK(difference(tiny_run(architecture, 3)) <= 1e-9);
  }
}

TEST_CASE("training on a device: every norm's are") {
  for (const NormKind norm : norm_kinds()) {
    RunConfig config = tiny_run(Architecture::plain, 2);
    config.model.norm = norm;
    config.model.norm_groups = 2;
    CAPTURE(to_string(norm));
    CHECK(difference(config) <= 1e-9);
  }
}

TEST_CASE("training on a device: every placement's are") {
  for (const Placement* placement : Placement::all()) {
    RunConfig config = tiny_run(Architecture::plain, 2);
    config.model.placement = *placement;
    CAPTURE(placement->name);
    CHECK(difference(config) <= 1e-9);
  }
}

TEST_CASE("training on a device: dropout drops what it drops on the CPU") {
  RunConfig config = tiny_run(Architecture::gpt2, 3);
  config.model.dropout = 0.3;
  CHECK(difference(config) <= 1e-9);
}

TEST_CASE("training on a device: sequences of several lengths and label smoothing") {
  RunConfig config = tiny_run(Architecture::vanilla, 3);
  config.training.task_length = 4;
  config.training.task_min_length = 1;
  config.training.label_smoothing = 0.1;
  CHECK(difference(config) <= 1e-9);
}

TEST_CASE("training on a device: in float32 the losses follow the CPU's to its roundings") {
  RunConfig config = tiny_run(Architecture::llama, 5);
  config.model.dtype = DType::float32;
  CHECK(difference(config) <= 1e-4);
}

TEST_CASE("training on a device: narrow activations with a loss scaler") {
  for (const Precision precision : {Precision::bfloat16, Precision::float16}) {
    RunConfig config = tiny_run(Architecture::plain, 3);
    config.model.dtype = DType::float32;
    config.model.precision = precision;
    CHECK(difference(config) <= 0.02);
  }
}

TEST_CASE("training on a device: a run goes on there from a checkpoint of the CPU's, with the same losses") {
  RunConfig config = tiny_run(Architecture::gpt2, 4);
  const std::vector<double> whole = course_of(config, Device::cpu()).losses;
  Trainer first(config);
  first.step();
  first.step();
  Trainer second(config, test_device());
  second.restore(first.checkpoint(), "the checkpoint");
  CHECK(second.step().loss == doctest::Approx(whole[2]).epsilon(1e-9));
  Trainer third(config);
  third.restore(second.checkpoint(), "the checkpoint");
  CHECK(third.step().loss == doctest::Approx(whole[3]).epsilon(1e-9));
}

TEST_CASE("training on a device: the validation loss and accuracy are the CPU's") {
  RunConfig config = tiny_run(Architecture::plain, 1);
  Trainer there(config, test_device()), here(config);
  const Evaluation on_the_device = there.evaluate(), on_the_cpu = here.evaluate();
  CHECK(on_the_device.loss == doctest::Approx(on_the_cpu.loss).epsilon(1e-9));
  CHECK(on_the_device.accuracy == on_the_cpu.accuracy);
}

TEST_CASE("training on a device: a loss that isn't finite names the operation, as on the CPU") {
  RunConfig config = tiny_run(Architecture::plain, 3);
  config.training.learning_rate = 1e200;
  config.training.clip_norm = 0.0;
  Trainer trainer(config, test_device());
  std::string message;
  try {
    while (!trainer.done()) trainer.step();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::non_finite);
    message = error.what();
  }
  CHECK(message.find("isn't finite") != std::string::npos);
}

TEST_CASE("clipping without waiting: the gradients and the norm are those of clip_gradient_norm") {
  const auto clipped = [](Device device, bool waits, double limit) {
    Parameter a("a", ones({2}, DType::float64, device)), b("b", ones({1}, DType::float64, device));
    a.add_gradient(tensor({3.0, 0.0}, DType::float64).to(device));
    b.add_gradient(tensor({4.0}, DType::float64).to(device));
    Parameter* const both[] = {&a, &b};
    const double norm = waits ? clip_gradient_norm(both, limit) : queue_clip_gradient_norm(both, limit).item();
    return std::vector<double>{norm, a.gradient().values()[0], b.gradient().item()};
  };
  for (const double limit : {1.0, 10.0}) {
    const std::vector<double> right = limit < 5 ? std::vector<double>{5, 0.6, 0.8} : std::vector<double>{5, 3, 4};
    for (const Device device : {Device::cpu(), test_device()}) {
      for (const bool waits : {true, false}) CHECK(distance(clipped(device, waits, limit), right) <= 1e-15);
    }
  }
}

TEST_CASE("probing on a device: every layer's Jacobian is the CPU's, and so are its parts") {
  for (const Placement* placement : {&Placement::pre, &Placement::post}) {
    TransformerConfig config = tiny_run(Architecture::plain, 1).model;
    config.vocabulary = 5;
    config.context = 3;
    config.layers = 2;
    config.placement = *placement;
    Transformer model(config, Rng(1));
    const ProbeReport here = probe(model, {.context = 3});
    model.to(test_device());
    const ProbeReport there = probe(model, {.context = 3});
    CHECK(there.largest_decomposition_error() <= 1e-10);
    for (std::size_t layer = 0; layer < here.layers.size(); ++layer) {
      const double right = here.layers[layer].jacobian.identity_distance;
      CHECK(there.layers[layer].jacobian.identity_distance == doctest::Approx(right).epsilon(1e-10));
    }
  }
}

TEST_CASE("generating on a device: the tokens are the CPU's, with a cache and without") {
  TransformerConfig config = tiny_run(Architecture::llama, 1).model;
  config.vocabulary = 6;
  config.context = 8;
  Transformer model(config, Rng(3));
  model.set_training(false);
  const auto tokens = [&](bool cache) {
    GenerationOptions options;
    options.cache = cache;
    options.sampling.temperature = 0.0;
    Rng rng(1);
    return generate(model, Prompt{.tokens = {1, 2}}, 5, options, rng).tokens;
  };
  const auto right = tokens(false);
  model.to(test_device());
  CHECK(tokens(false) == right);
  CHECK(tokens(true) == right);
}
