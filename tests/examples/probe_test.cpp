#include <doctest/doctest.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include "examples/child_process.hpp"
#include "examples/refused.hpp"
#include "temporary_folder.hpp"

namespace {

nlohmann::json probe(const std::string& placement) {
  const Finished run = run_jnorm({"probe", "--placement", placement, "--layers", "2", "--dim", "8", "--heads", "2",
                                  "--context", "4", "--json", "--progress", "none"});
  CHECK(run.exit_code == 0);
  CHECK(run.err == "");
  return nlohmann::json::parse(run.out);
}

}  // namespace

TEST_CASE("jnorm probe: the JSON object has what was measured of layers, sublayers and their product") {
  for (const char* placement : {"pre", "post"}) {
    const nlohmann::json report = probe(placement);
    REQUIRE(report["layers"].size() == 2);
    REQUIRE(report["gradient_norms"].size() == 3);
    for (const char* name : {"trace_over_n", "median_sigma", "effective_rank"}) CHECK(report["product"].contains(name));
    for (const auto& layer : report["layers"]) {
      CHECK(layer["sublayers"].size() == 2);
      for (const auto& sublayer : layer["sublayers"]) {
        for (const char* name : {"name", "identity_distance", "sigma_max", "sigma_min", "decomposition_error",
                                 "branch_norm", "norm_sigma_max", "norm_sigma_min"}) {
          CHECK_MESSAGE(sublayer.contains(name), name);
        }
      }
    }
  }
}

TEST_CASE("jnorm probe: the parts make up the whole for both placements") {
  CHECK(probe("pre")["decomposition_error"] < 1e-10);
  CHECK(probe("post")["decomposition_error"] < 1e-10);
}

TEST_CASE("jnorm probe: both placements start with the same weights and differ in their Jacobians") {
  CHECK(probe("pre")["layers"][1]["identity_distance"] != probe("post")["layers"][1]["identity_distance"]);
}

TEST_CASE("jnorm probe: a text is read as the model's kind is trained to read it") {
  const TemporaryFolder folder;
  const std::string text = folder.file("text");
  std::ofstream(text) << "The quick brown fox jumps over the lazy dog.";
  for (const char* architecture : {"gpt2", "bert", "vanilla"}) {
    CAPTURE(std::string(architecture));
    const Finished run = run_jnorm({"probe", "--arch", architecture, "--layers", "2", "--dim", "8", "--heads", "2",
                                    "--tokens", "4", "--text", text, "--json", "--progress", "none"});
    CHECK(run.err == "");
    REQUIRE(run.exit_code == 0);
    const nlohmann::json report = nlohmann::json::parse(run.out);
    CHECK(report["decomposition_error"] < 1e-10);
    CHECK(report["gradient_norms"][0] > 0.0);
  }
}

TEST_CASE("jnorm probe: a text that is too short says how many bytes it takes") {
  const TemporaryFolder folder;
  const std::string text = folder.file("text");
  std::ofstream(text) << "fox";
  const Finished run = run_jnorm({"probe", "--arch", "vanilla", "--tokens", "4", "--text", text});
  CHECK(run.exit_code == 2);
  CHECK(run.err.find("need at least 8 bytes") != std::string::npos);
}

TEST_CASE("jnorm probe: a survey has a table of the stream's size and one of the gradient's ratio") {
  const Finished run = run_jnorm({"probe", "--survey", "--dim", "8", "--heads", "2", "--tokens", "4", "--depths", "1,2",
                                  "--seeds", "2", "--placements", "post,reordered", "--progress", "none"});
  CHECK(run.exit_code == 0);
  CHECK(run.err == "");
  for (const char* part : {"||x_L||^2 / N", "||d x_L / d x_0||_F / sqrt(N)", "\npost ", "\nreordered ",
                           "\nreordered, QK-norm ", "1.000 x1.00"}) {
    CHECK_MESSAGE(run.out.find(part) != std::string::npos, part);
  }
}

TEST_CASE("jnorm probe: a survey's JSON has the figures of every seed") {
  const Finished run = run_jnorm({"probe", "--survey", "--dim", "8", "--heads", "2", "--tokens", "4", "--depths", "1,2",
                                  "--seeds", "3", "--placements", "pre", "--json", "--progress", "none"});
  REQUIRE(run.exit_code == 0);
  const nlohmann::json survey = nlohmann::json::parse(run.out);
  REQUIRE(survey["stacks"].size() == 2);
  CHECK(survey["stacks"][1]["placement"] == "pre");
  CHECK(survey["stacks"][1]["layers"] == 2);
  CHECK(survey["stacks"][1]["mean_square"]["values"].size() == 3);
  CHECK(survey["stacks"][1]["gradient_ratio"]["mean"] > 1.0);
}

TEST_CASE("jnorm probe: options that a survey has no use for are refused, and its own ones without it") {
  check_refused({"probe", "--survey", "--layers", "3"},
                "--layers: a survey has its own, --placements and --depths; leave it away");
  check_refused({"probe", "--depths", "3"}, "--depths: it belongs to --survey");
  check_refused({"probe", "--survey", "--depths", "3,x"}, "depths: expected a whole number, got \"x\"");
  check_refused({"probe", "--survey", "--depths", "0"}, "layers: expected a positive size below 2^31, got 0");
}

TEST_CASE("jnorm probe: wrong sizes are refused") {
  check_refused({"probe", "--heads", "3"}, "heads: 3 don't divide dim 64");
  check_refused({"probe", "--context", "4", "--tokens", "5"}, "--tokens: the model's context is 4, got 5");
}

TEST_CASE("jnorm probe --from: measures a Hugging Face model of each kind, and its parts make up the whole") {
  for (const std::string kind : {"bert", "minilm", "gpt2", "llama", "qwen2", "qwen3"}) {
    CAPTURE(kind);
    const Finished run = run_jnorm({"probe", "--from", JNORM_SOURCE "/tests/golden/hugging_face/" + kind, "--tokens",
                                    "4", "--json", "--progress", "none"});
    CHECK(run.exit_code == 0);
    CHECK(nlohmann::json::parse(run.out)["decomposition_error"] < 1e-10);
    CHECK((run.err.find("left out: pooler") != std::string::npos) == (kind == "minilm"));
  }
}

TEST_CASE("jnorm probe --from: a file that is no model is refused") {
  const std::string golden = JNORM_SOURCE "/tests/golden/blocks.safetensors";
  check_refused({"probe", "--from", golden},
                "'" + golden +
                    "': it is no checkpoint: expected the metadata 'jnorm': 'checkpoint 1'; a model of "
                    "Hugging Face's needs its config.json beside it");
}
