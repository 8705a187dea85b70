#include <doctest/doctest.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include <jnorm/core/files.hpp>

#include "examples/child_process.hpp"
#include "examples/refused.hpp"
#include "temporary_folder.hpp"

using jnorm::read_file;

namespace {

// A run folder with a model of a text of one letter, trained until it knows it.
std::string trained_on_one_letter(const TemporaryFolder& folder) {
  std::ofstream(folder.file("text")) << std::string(200, 'a');
  const std::string run = folder.file("run");
  REQUIRE(run_jnorm({"train",
                     "--text",
                     folder.file("text"),
                     "--layers",
                     "1",
                     "--dim",
                     "8",
                     "--heads",
                     "2",
                     "--context",
                     "8",
                     "--steps",
                     "60",
                     "--learning-rate",
                     "1e-2",
                     "--batch",
                     "4",
                     "--out",
                     run,
                     "-q"})
              .exit_code == 0);
  return run;
}

}  // namespace

TEST_CASE("jnorm sample: a model of one letter writes that letter") {
  const TemporaryFolder folder;
  const std::string run = trained_on_one_letter(folder);
  CHECK(run_jnorm({"sample", run, "--prompt", "a", "--tokens", "12", "--temperature", "0"}).out ==
        std::string(13, 'a') + "\n");
}

TEST_CASE("jnorm sample: one seed writes one text, also as JSON") {
  const TemporaryFolder folder;
  const std::string run = trained_on_one_letter(folder);
  const std::vector<std::string> words{"sample", run, "--tokens", "20", "--temperature", "2", "--seed", "5", "--json"};
  const Finished once = run_jnorm(words);
  CHECK(nlohmann::json::parse(once.out).contains("text"));
  CHECK(run_jnorm(words).out == once.out);
}

TEST_CASE("jnorm sample: wrong input is refused") {
  const TemporaryFolder folder;
  check_refused({"sample", folder.path()}, folder.path() + ": it holds no checkpoint.safetensors (yet)");
  check_refused({"sample", folder.file("none")}, folder.file("none") + ": no such run folder or checkpoint");
}

TEST_CASE("jnorm sample: a wrong option is an error alone, without the prompt before it") {
  const TemporaryFolder folder;
  const std::string run = trained_on_one_letter(folder);
  check_refused({"sample", run, "--temperature", "-1"},
                "sampling: the temperature must be 0 or positive and finite, but is -1");
  check_refused({"sample", run, "--dtype", "float64"},
                "--dtype: a model is sampled in the type that it was trained in; leave it away");
}

TEST_CASE("jnorm sample --out: the prompt and what follows it stand in the folder") {
  const TemporaryFolder folder;
  const std::string run = trained_on_one_letter(folder);
  const std::string out = folder.file("out");
  const Finished written =
      run_jnorm({"sample", run, "--prompt", "a", "--tokens", "12", "--temperature", "0", "--out", out});
  CHECK(written.out == "");
  CHECK(read_file(out + "/sample.txt") == std::string(13, 'a') + "\n");
}

TEST_CASE("jnorm sample --json: a prompt that is no UTF-8 still gives valid JSON") {
  const TemporaryFolder folder;
  const Finished run = run_jnorm({"sample", trained_on_one_letter(folder), "--prompt", "\xff", "--json"});
  REQUIRE(nlohmann::json::accept(run.out));
  CHECK(nlohmann::json::parse(run.out)["prompt"] == "\xEF\xBF\xBD");
}

TEST_CASE("jnorm sample: a checkpoint that the result would replace is refused, by force too") {
  const TemporaryFolder folder;
  const std::string checkpoint = folder.file("sample.txt");
  std::ofstream(checkpoint) << "x";
  check_refused({"sample", checkpoint, "--out", folder.path(), "--force"},
                "--out: " + checkpoint + " is what the command reads; name another folder");
  CHECK(read_file(checkpoint) == "x");
}
