#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include <jnorm/core/openblas.hpp>
#include <jnorm/cuda/device.hpp>

#include "examples/child_process.hpp"
#include "examples/refused.hpp"
#include "system_information.hpp"
#include "temporary_folder.hpp"

using namespace jnorm;

TEST_CASE("jnorm info: one fact a line, the BLAS kernels that run among them") {
  const Finished run = run_jnorm({"info"});
  CHECK(run.exit_code == 0);
  CHECK(run.err == "");
  CHECK(run.out.find("\nBLAS       " + blas_description() + "\n") != std::string::npos);
  CHECK(run.out.find("\ndevices    " + devices_description() + "\n") != std::string::npos);
}

TEST_CASE("jnorm info --json: one object with the same facts") {
  const Finished run = run_jnorm({"info", "--json", "--threads", "1"});
  CHECK(run.exit_code == 0);
  const nlohmann::json facts = nlohmann::json::parse(run.out);
  CHECK(facts["threads"] == 1);
  CHECK(facts["blas"]["kernels"] == blas_core_name());
  CHECK(facts["devices"][0]["available"] == true);
  const std::string missing = cuda::why_none();
  CHECK(facts["devices"][1]["available"] == missing.empty());
  if (!missing.empty()) CHECK(facts["devices"][1]["reason"] == missing);
  CHECK(facts["dtypes"][1]["name"] == "float32");
  CHECK(facts["dtypes"][1]["epsilon"] == 1.1920928955078125e-07);
  CHECK(facts["dtypes"][1]["computes"] == true);
}

TEST_CASE("jnorm info: with a model's options, its parameters, what all blocks have in one row") {
  const Finished run = run_jnorm({"info", "--arch", "llama", "--layers", "3", "--dim", "8", "--heads", "2"});
  CHECK(run.exit_code == 0);
  CHECK(run.out.starts_with("llama, a model of kind decoder: 3 layers of width 8, placement pre, norm rms, 2 heads, "));
  CHECK(run.out.find("\nblocks.*.ffn.norm.gamma ") != std::string::npos);
  CHECK(run.out.find("\n6,456 parameters, 26 kB; trained with Adam 103 kB: ") != std::string::npos);
}

TEST_CASE("jnorm info: of a run folder, the model that it trained") {
  const TemporaryFolder folder;
  REQUIRE(run_jnorm({"train", "--task", "copy", "--layers", "2", "--dim", "8", "--heads", "2", "--norm", "batch",
                     "--steps", "1", "--out", folder.file("run"), "-q"})
              .exit_code == 0);
  const Finished run = run_jnorm({"info", folder.file("run"), "--json"});
  CHECK(run.exit_code == 0);
  const nlohmann::json model = nlohmann::json::parse(run.out);
  CHECK(model["model"]["norm"] == "batch");
  CHECK(model["model"]["vocabulary"] == "13");
  CHECK(model["buffer_bytes"] == 5 * 2 * 8 * 4);  // means and variances of five norms
  CHECK(model["parameter_bytes"] == 4 * model["parameters"].get<int>());
  check_refused({"info", folder.file("run"), "--layers", "3"},
                "--layers: the model comes from " + folder.file("run") + " with its own settings; leave it away");
}

TEST_CASE("jnorm: a model beyond the machine's memory is refused in one line, by every command") {
  const TemporaryFolder folder;
  const std::vector<std::vector<std::string>> commands{
      {"info"}, {"graph"}, {"probe"}, {"train", "--task", "copy", "--out", folder.file("run")}};
  for (std::vector<std::string> words : commands) {
    CAPTURE(words[0]);
    words.insert(words.end(), {"--layers", "2000000000"});
    const Finished run = run_jnorm(words);
    CHECK(run.exit_code == 2);
    CHECK(run.err.starts_with("jnorm: memory: this needs at least "));
    CHECK(run.err.find("), but the machine has ") != std::string::npos);
    CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
  }
  CHECK_FALSE(std::filesystem::exists(folder.file("run")));
}

TEST_CASE("jnorm probe: Jacobians beyond the machine's memory are refused") {
  const Finished run = run_jnorm({"probe", "--context", "1000000", "--layers", "1"});
  CHECK(run.exit_code == 2);
  CHECK(run.err.find("Jacobians ") != std::string::npos);
}
