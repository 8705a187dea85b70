#include <jnorm/layers/run_settings.hpp>

#include <set>

#include <doctest/doctest.h>

#include <jnorm/layers/checkpoint.hpp>
#include <jnorm/layers/run_toml.hpp>

using namespace jnorm;

namespace {

// The settings that every run folder has, also those written before there were others.
const std::set<std::string> kOriginal{"placement",
                                      "norm",
                                      "eps",
                                      "final-norm",
                                      "layers",
                                      "dim",
                                      "heads",
                                      "ffn",
                                      "context",
                                      "activation",
                                      "init",
                                      "dtype",
                                      "steps",
                                      "batch",
                                      "seed",
                                      "optimizer",
                                      "decay",
                                      "warmup",
                                      "momentum",
                                      "beta1",
                                      "beta2",
                                      "adam-eps",
                                      "learning-rate",
                                      "weight-decay",
                                      "clip-norm",
                                      "modulus",
                                      "task-length",
                                      "task-symbols",
                                      "validation-fraction",
                                      "evaluate-every",
                                      "evaluation-batches",
                                      "checkpoint-every"};

}  // namespace

TEST_CASE("run settings: every setting has a name of its own, and help") {
  std::set<std::string> names;
  for (const RunSetting& setting : run_settings()) {
    CHECK(names.insert(setting.name).second);
    CHECK_FALSE(setting.help.empty());
  }
}

TEST_CASE("run settings: a setting that isn't one of the original ones may be left out") {
  for (const RunSetting& setting : run_settings()) {
    CAPTURE(setting.name);
    CHECK(setting.may_be_left_out == !kOriginal.contains(setting.name));
  }
}

TEST_CASE("run settings: a configuration from before a setting was added reads as its default") {
  RunConfig written;
  written.training.steps = 77;
  std::string toml;
  for (const RunSetting& setting : run_settings()) {
    if (!kOriginal.contains(setting.name)) continue;
    const std::string value = setting.get(written);
    toml += setting.name + " = " + (setting.quoted ? "'" + value + "'" : value) + "\n";
  }
  CHECK(to_toml(from_toml(toml, "c.toml")) == to_toml(written));
}

TEST_CASE("run settings: a checkpoint from before a setting was added reads as its default") {
  RunConfig written;
  written.training.steps = 77;
  SafeTensors file = to_safetensors({.config = written, .data = "", .data_state = {}, .weights = {}, .optimizer = {}});
  for (const RunSetting& setting : run_settings()) {
    if (!kOriginal.contains(setting.name)) file.metadata.erase("run." + setting.name);
  }
  CHECK(to_toml(from_safetensors(file, "c").config) == to_toml(written));
}
