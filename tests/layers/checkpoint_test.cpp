#include <jnorm/layers/checkpoint.hpp>

#include <limits>

#include <doctest/doctest.h>
#include <temporary_folder.hpp>

#include <jnorm/core/files.hpp>
#include <jnorm/layers/run_toml.hpp>

using namespace jnorm;

namespace {

RunConfig small_config() {
  RunConfig config;
  config.model = {.vocabulary = 13, .layers = 1, .dim = 8, .heads = 2, .context = 12};
  config.training.task = "copy";
  return config;
}

Checkpoint small_checkpoint(const RunConfig& config = small_config()) {
  const Transformer model(config.model, Rng(5));
  return {.config = config,
          .data = "some data",
          .data_state = {.seed = 18446744073709551615u, .stream = 2, .counter = 3},
          .step = 7,
          .loss_scaler = LossScaler::State{.scale = 0.1 + 0.2, .steps_since_change = 4, .overflows = 2},
          .best = BestEvaluation{.loss = 1.0 / 3.0, .step = 5, .evaluations_since = 1},
          .weights = model.state(),
          .optimizer = {{"head.weight.first_moment", tensor({1, 2})}}};
}

// Written with one configuration, loaded into a model of another.
std::string refusal(const RunConfig& written, const TransformerConfig& loaded) {
  Transformer model(loaded, Rng(1));
  const std::vector<double> before = model.state()[0].second.values();
  try {
    load_weights(model, small_checkpoint(written), "c");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::file);
    CHECK(model.state()[0].second.values() == before);
    return error.what();
  }
  return "nothing was thrown";
}

std::string refusal_of_metadata(const std::string& name, const std::string& value) {
  SafeTensors file = to_safetensors(small_checkpoint());
  file.metadata[name] = value;
  try {
    from_safetensors(file, "c");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::file);
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("checkpoint: everything is read back as it was written") {
  const TemporaryFolder folder;
  const Checkpoint written = small_checkpoint();
  save_checkpoint(folder.file("c"), written);
  const Checkpoint read = load_checkpoint(folder.file("c"));
  CHECK(to_toml(read.config) == to_toml(written.config));
  CHECK(read.config.model.vocabulary == 13);
  CHECK(read.data == "some data");
  CHECK(read.data_state == written.data_state);
  CHECK(read.step == 7);
  CHECK(read.loss_scaler == written.loss_scaler);
  CHECK(read.best == written.best);
  CHECK(serialize_safetensors(to_safetensors(read)) == serialize_safetensors(to_safetensors(written)));
}

TEST_CASE("checkpoint: the path of the text isn't in it") {
  RunConfig config = small_config();
  config.training.task = "";
  config.training.text = "/home/someone/book.txt";
  CHECK(serialize_safetensors(to_safetensors(small_checkpoint(config))).find("book") == std::string::npos);
}

TEST_CASE("checkpoint: the placement, final norm, eps and kind of norm are in its metadata") {
  const auto metadata = to_safetensors(small_checkpoint()).metadata;
  CHECK(metadata.at("run.placement") == "pre");
  CHECK(metadata.at("run.final-norm") == "true");
  CHECK(metadata.at("run.eps") == "1e-05");
  CHECK(metadata.at("run.norm") == "layer");
}

TEST_CASE("checkpoint: its model is built from the configuration inside") {
  const TemporaryFolder folder;
  RunConfig config = small_config();
  config.model.placement = Placement::post;
  save_checkpoint(folder.file("c"), small_checkpoint(config));
  const auto model = load_model(folder.file("c"));
  CHECK(model->config().placement == Placement::post);
  CHECK(model->state()[0].second.values() == Transformer(config.model, Rng(5)).state()[0].second.values());
}

TEST_CASE("checkpoint: a model of the other placement is refused, and left as it was") {
  TransformerConfig post = small_config().model;
  post.placement = Placement::post;
  CHECK(refusal(small_config(), post) ==
        "'c' is of another model: placement is pre there, but post here; final-norm is true there, but false here; "
        "load it into a model of its own configuration");
}

TEST_CASE("checkpoint: a model of the other placement is refused though all of its tensors fit") {
  RunConfig pre = small_config();
  pre.model.final_norm = false;
  TransformerConfig post = small_config().model;
  post.placement = Placement::post;
  CHECK(refusal(pre, post).starts_with("'c' is of another model: placement is pre there, but post here; load"));
}

TEST_CASE("checkpoint: a model with another final norm, eps, norm or size is refused") {
  const TransformerConfig model = small_config().model;
  TransformerConfig other = model;
  other.final_norm = false;
  CHECK(refusal(small_config(), other).find("final-norm is true there, but false here") != std::string::npos);
  other = model;
  other.eps = 1e-6;
  CHECK(refusal(small_config(), other).find("eps is 1e-05 there, but 1e-06 here") != std::string::npos);
  other = model;
  other.norm = NormKind::rms;
  CHECK(refusal(small_config(), other).find("norm is layer there, but rms here") != std::string::npos);
  other = model;
  other.dim = 16;
  CHECK(refusal(small_config(), other).find("dim is 8 there, but 16 here") != std::string::npos);
  other = model;
  other.vocabulary = 14;
  CHECK(refusal(small_config(), other).find("vocabulary is 13 there, but 14 here") != std::string::npos);
}

TEST_CASE("checkpoint: a final norm that the file lacks, or has and the model lacks, is refused") {
  RunConfig post = small_config();
  post.model.placement = Placement::post;
  TransformerConfig other = post.model;
  other.final_norm = true;
  CHECK(refusal(post, other) ==
        "'c' is of another model: final-norm is false there, but true here; load it into a model of its own "
        "configuration");
  post.model.final_norm = true;
  other.final_norm = false;
  CHECK(refusal(post, other).find("final-norm is true there, but false here") != std::string::npos);
}

TEST_CASE(
    "checkpoint: a file whose metadata were edited to another norm or final norm no longer fits its own tensors") {
  const TemporaryFolder folder;
  const auto refusal_when = [&](const char* setting, const char* value) {
    SafeTensors file = to_safetensors(small_checkpoint());
    file.metadata[setting] = value;
    save_safetensors(folder.file("c"), file);
    try {
      load_model(folder.file("c"));
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::file);
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  CHECK(refusal_when("run.final-norm", "false").find("; 2 unexpected: final_norm.beta, final_norm.gamma") !=
        std::string::npos);
  CHECK(refusal_when("run.norm", "rms")
            .find("; 3 unexpected: blocks.0.attention.norm.beta, blocks.0.ffn.norm.beta, "
                  "final_norm.beta") != std::string::npos);
  CHECK(refusal_when("run.placement", "sandwich").find("4 missing: blocks.0.attention.output_norm.gamma") !=
        std::string::npos);
}

TEST_CASE("checkpoint: sizes beyond what the file holds are refused before a model of them is built") {
  const TemporaryFolder folder;
  for (const char* const size : {"run.layers", "run.dim", "run.ffn", "run.context", "vocabulary"}) {
    CAPTURE(size);
    SafeTensors file = to_safetensors(small_checkpoint());
    file.metadata[size] = "2000000000";
    save_safetensors(folder.file("c"), file);
    CHECK_THROWS_WITH_AS(load_model(folder.file("c")), doctest::Contains("a model of its sizes has at least "), Error);
  }
}

TEST_CASE("checkpoint: a tensor that is missing or not expected is named") {
  Checkpoint checkpoint = small_checkpoint();
  checkpoint.weights.back().first = "tail.weight";
  Transformer model(checkpoint.config.model, Rng(1));
  CHECK_THROWS_WITH_AS(load_weights(model, checkpoint, "c"),
                       doctest::Contains("1 missing: head.weight; 1 unexpected: tail.weight"), Error);
}

TEST_CASE("checkpoint: a file none of whose names the model knows is refused, and not skipped over") {
  Checkpoint checkpoint = small_checkpoint();
  for (auto& [name, tensor] : checkpoint.weights) name = "model." + name;
  Transformer model(checkpoint.config.model, Rng(1));
  const auto count = std::to_string(checkpoint.weights.size());
  CHECK_THROWS_WITH_AS(load_weights(model, checkpoint, "c"), doctest::Contains(count.c_str()), Error);
  CHECK_THROWS_WITH_AS(load_weights(model, checkpoint, "c"), doctest::Contains("unexpected: model."), Error);
}

TEST_CASE("checkpoint: a weight that isn't finite is refused by name and place") {
  Transformer model(small_config().model, Rng(1));
  Checkpoint checkpoint = small_checkpoint();
  checkpoint.weights[0].second.mutable_data<float>()[1] = std::numeric_limits<float>::quiet_NaN();
  CHECK_THROWS_WITH_AS(load_weights(model, checkpoint, "c"),
                       "'c': weight token_embedding.table [13, 8] is nan at [0, 1]; go on from an earlier checkpoint",
                       Error);
}

TEST_CASE("checkpoint: a safetensors file of something else is refused") {
  CHECK_THROWS_WITH_AS(from_safetensors({.tensors = {{"x", tensor({1})}}, .metadata = {}}, "c"),
                       "'c': it is no checkpoint: expected the metadata 'jnorm': 'checkpoint 1'; a model of Hugging "
                       "Face's needs its config.json beside it",
                       Error);
}

TEST_CASE("checkpoint: metadata that are wrong, unknown or missing are refused by name") {
  CHECK(refusal_of_metadata("run.norm", "mid") ==
        "'c': norm: expected one of layer, rms, batch, group, scale, dyt, none, got \"mid\"");
  CHECK(refusal_of_metadata("step", "x") == "'c': step: expected a whole number, got \"x\"");
  CHECK(refusal_of_metadata("step", "1001") == "'c': step: expected one of the run's 1000, got 1001");
  CHECK(refusal_of_metadata("run.dim", "0") == "'c': dim: expected a positive size below 2^31, got 0");
  CHECK(refusal_of_metadata("best.loss", "nan") == "'c': best.loss: expected a finite number, got nan");
  CHECK(refusal_of_metadata("best.step", "8") == "'c': best.step: expected one of the 7 that were made, got 8");
  CHECK(refusal_of_metadata("best.evaluations_since", "3") ==
        "'c': best.evaluations_since: expected no more than the steps since, 2, got 3");
  CHECK(refusal_of_metadata("run.colour", "red") == "'c': its metadata have an unknown \"run.colour\"");
  SafeTensors file = to_safetensors(small_checkpoint());
  file.metadata.erase("run.eps");
  CHECK_THROWS_WITH_AS(from_safetensors(file, "c"), "'c': its metadata lack 'run.eps'", Error);
}
