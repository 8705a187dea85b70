#include <doctest/doctest.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include <jnorm/core/files.hpp>

#include "examples/child_process.hpp"
#include "examples/refused.hpp"
#include "temporary_folder.hpp"

using jnorm::read_file;

namespace {

// A run folder with a small model, trained with these options besides.
std::string trained(const TemporaryFolder& folder, const std::vector<std::string>& options) {
  const std::string run = folder.file("run");
  std::vector<std::string> words{"train", "--layers", "1", "--dim", "8", "--heads",
                                 "2",     "--batch",  "4", "--out", run, "-q"};
  words.insert(words.end(), options.begin(), options.end());
  REQUIRE(run_jnorm(words).exit_code == 0);
  return run;
}

// Of a text of one letter, until it knows it.
std::string trained_on_one_letter(const TemporaryFolder& folder, const std::vector<std::string>& options = {}) {
  std::ofstream(folder.file("text")) << std::string(200, 'a');
  std::vector<std::string> words{"--text", folder.file("text"), "--context", "8", "--steps",
                                 "60",     "--learning-rate",   "1e-2"};
  words.insert(words.end(), options.begin(), options.end());
  return trained(folder, words);
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

TEST_CASE("jnorm sample: a model that knows more tokens than bytes writes bytes alone") {
  const TemporaryFolder folder;
  const std::string run = trained_on_one_letter(folder, {"--vocabulary", "1000", "--sequence-length", "6"});
  CHECK(run_jnorm({"sample", run, "--prompt", "a", "--tokens", "12", "--temperature", "0"}).out ==
        std::string(13, 'a') + "\n");
}

TEST_CASE("jnorm sample: a model with a tokenizer of its own is refused, with the way out") {
  const std::string model = JNORM_SOURCE "/tests/golden/hugging_face/gpt2";
  check_refused({"sample", model}, "sample: " + model +
                                       " has tokens of its own tokenizer, not bytes; train it on a text "
                                       "first: jnorm train --from");
}

TEST_CASE("jnorm sample: a wrong option is an error alone, without the prompt before it") {
  const TemporaryFolder folder;
  const std::string run = trained_on_one_letter(folder);
  check_refused({"sample", run, "--temperature", "-1"},
                "sampling: the temperature must be 0 or positive and finite, but is -1");
  check_refused({"sample", run, "--dtype", "float64"},
                "--dtype: a model is sampled in the type that it was trained in; leave it away");
}

TEST_CASE("jnorm sample: an empty prompt is refused") {
  const TemporaryFolder folder;
  check_refused({"sample", trained_on_one_letter(folder), "--prompt", ""}, "--prompt: expected a value, got none");
}

TEST_CASE("jnorm sample: with and without the cache, beyond the context too, the text is the same") {
  const TemporaryFolder folder;
  std::vector<std::string> words{
      "sample", trained_on_one_letter(folder), "--tokens", "30", "--top-p", "0.9", "--top-k", "50", "--temperature",
      "2"};
  const Finished cached = run_jnorm(words);
  words.push_back("--no-cache");
  CHECK(run_jnorm(words).out == cached.out);
  CHECK(cached.exit_code == 0);
}

TEST_CASE("jnorm sample --at-limit stop: the text ends where the context is full, and a line says so") {
  const TemporaryFolder folder;
  const Finished run = run_jnorm(
      {"sample", trained_on_one_letter(folder), "--prompt", "aaa", "--temperature", "0", "--at-limit", "stop"});
  CHECK(run.out == std::string(3 + 6, 'a') + "\n");
  CHECK(run.err == "the model's context is full after 6 tokens, which ends the text\n");
}

TEST_CASE("jnorm sample -v: tells the tokens per second") {
  const TemporaryFolder folder;
  const std::string run = trained_on_one_letter(folder);
  CHECK(run_jnorm({"sample", run, "--tokens", "5", "-v"}).err.find(" tokens a second\n") != std::string::npos);
  CHECK(run_jnorm({"sample", run, "--tokens", "5"}).err == "");
}

TEST_CASE("jnorm sample: an encoder-decoder of a text reads the prompt, and answers to the end of its context") {
  const TemporaryFolder folder;
  const std::string run = trained_on_one_letter(folder, {"--arch", "vanilla"});
  CHECK(run_jnorm({"sample", run, "--prompt", "aaaa", "--temperature", "0"}).out == "aaaaaaaa\n");
  check_refused(
      {"sample", run, "--prompt", "aaaa", "--at-limit", "slide"},
      "generate: what answers a source begins with BOS and can't slide beyond the context; let it stop there");
}

TEST_CASE("jnorm sample: a model of masked tokens is refused") {
  const TemporaryFolder folder;
  check_refused(
      {"sample", trained_on_one_letter(folder, {"--arch", "bert"})},
      "generate: an encoder says what stands where a token is hidden, and has no next token; expected a model of "
      "kind decoder or encoder_decoder");
}

TEST_CASE("jnorm sample: a task's model answers symbols with symbols") {
  for (const char* architecture : {"gpt2", "vanilla"}) {
    CAPTURE(architecture);
    const TemporaryFolder folder;
    const std::string run =
        trained(folder, {"--arch", architecture, "--task", "copy", "--task-length", "3", "--task-symbols", "2", "--dim",
                         "16", "--steps", "300", "--learning-rate", "1e-2"});
    CHECK(run_jnorm({"sample", run, "--prompt", "1 0 1", "--temperature", "0"}).out == "1 0 1\n");
    const Finished json = run_jnorm({"sample", run, "--prompt", "0 1 1", "--temperature", "0", "--json"});
    CHECK(nlohmann::json::parse(json.out) == nlohmann::json{{"prompt", "0 1 1"}, {"text", "0 1 1"}, {"end", "count"}});
    check_refused({"sample", run}, "sample: a model of task copy needs a --prompt of symbols, such as \"3 1 2\"");
    check_refused({"sample", run, "--prompt", "0 2"}, "--prompt: task copy has the symbols 0 to 1, got 2");
    check_refused({"sample", run, "--prompt", "0 x"}, "--prompt: expected a whole number, got \"x\"");
    check_refused({"sample", run, "--prompt", " "},
                  "--prompt: task copy expected 1 to 3 symbols separated by blanks, got 0");
    check_refused({"sample", run, "--prompt", "0 1 0 1"},
                  "--prompt: task copy expected 1 to 3 symbols separated by blanks, got 4");
  }
}

TEST_CASE("jnorm sample: a sum has two terms") {
  const TemporaryFolder folder;
  const std::string run = trained(folder, {"--task", "modular_addition", "--modulus", "2", "--validation-fraction", "0",
                                           "--steps", "200", "--learning-rate", "1e-2"});
  CHECK(run_jnorm({"sample", run, "--prompt", "1 1", "--temperature", "0"}).out == "0\n");
  CHECK(run_jnorm({"sample", run, "--prompt", "1 0", "--temperature", "0"}).out == "1\n");
  check_refused({"sample", run, "--prompt", "1"},
                "--prompt: task modular_addition expected 2 symbols separated by blanks, got 1");
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
