#include <doctest/doctest.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <jnorm/core/files.hpp>
#include <jnorm/layers/architecture.hpp>

#include "examples/child_process.hpp"
#include "examples/refused.hpp"
#include "file_size_limit.hpp"
#include "temporary_folder.hpp"

using namespace jnorm;

namespace {

// A small model on the copy task, into `folder`.
std::vector<std::string> train(const std::string& folder, std::vector<std::string> more = {}) {
  std::vector<std::string> words{"train", "--task",  "copy", "--layers", "1", "--dim", "8",    "--heads",
                                 "2",     "--steps", "20",   "--batch",  "4", "--out", folder, "--checkpoint-every",
                                 "5",     "-q"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Waits until the child has made the file, or has ended.
void await_file(const std::string& path, pid_t child) {
  while (!std::filesystem::exists(path)) {
    REQUIRE(waitpid(child, nullptr, WNOHANG) == 0);
    usleep(1000);
  }
}

std::string without_times(const std::string& metrics) {
  std::string kept;
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    auto object = nlohmann::ordered_json::parse(line);
    object.erase("seconds");
    object.erase("tokens_per_second");
    kept += object.dump() + "\n";
  }
  return kept;
}

}  // namespace

TEST_CASE("jnorm train: a run folder holds configuration, metrics and a checkpoint") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  CHECK(run_jnorm(train(run)).exit_code == 0);
  CHECK(read_file(run + "/config.toml").find("steps = 20\n") != std::string::npos);
  CHECK(std::filesystem::exists(run + "/checkpoint.safetensors"));
  const std::string metrics = read_file(run + "/metrics.jsonl");
  CHECK(std::count(metrics.begin(), metrics.end(), '\n') == 20);
}

TEST_CASE("jnorm train: --arch comes before other settings, wherever it stands, and a file's own can't be replaced") {
  const TemporaryFolder folder;
  const std::string path = folder.file("run.toml");
  std::ofstream(path) << "norm = 'scale'\narch = 'llama'\n";
  const auto configuration = [&](const std::string& name, std::vector<std::string> words) {
    words.insert(words.end(), {"--config", path});
    CHECK(run_jnorm(train(folder.file(name), words)).exit_code == 0);
    return read_file(folder.file(name) + "/config.toml");
  };
  CHECK(configuration("a", {}).find("norm = 'scale'\n") != std::string::npos);
  CHECK(configuration("b", {"--norm", "layer", "--arch", "llama"}).find("norm = 'layer'\n") != std::string::npos);
  check_refused(train(folder.file("c"), {"--config", path, "--arch", "bert"}),
                "--arch: '" + path + "', line 2: arch is llama there, but bert here; give one of them");
}

TEST_CASE("jnorm train: --json prints one object, of the last step") {
  const TemporaryFolder folder;
  const Finished run = run_jnorm(train(folder.file("run"), {"--json"}));
  CHECK(nlohmann::json::parse(run.out)["last"]["step"] == 20);
}

TEST_CASE("jnorm train: a run that was killed goes on to the same bits as one that wasn't") {
  const TemporaryFolder folder;
  const std::string whole = folder.file("whole");
  const std::string killed = folder.file("killed");
  const std::vector<std::string> longer{"--steps", "400"};
  REQUIRE(run_jnorm(train(whole, longer)).exit_code == 0);

  const pid_t child = fork();
  if (child == 0) child_process::become_jnorm(train(killed, longer), {});
  await_file(killed + "/checkpoint.safetensors", child);
  kill(child, SIGKILL);
  child_process::exit_code_of(child);

  CHECK(run_jnorm({"train", "--resume", killed, "-q"}).exit_code == 0);
  CHECK(read_file(killed + "/checkpoint.safetensors") == read_file(whole + "/checkpoint.safetensors"));
  CHECK(without_times(read_file(killed + "/metrics.jsonl")) == without_times(read_file(whole + "/metrics.jsonl")));
}

TEST_CASE("jnorm train: settings beside --resume are refused, for the run's own count") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  REQUIRE(run_jnorm(train(run)).exit_code == 0);
  for (const std::string setting : {"--steps", "--seed", "--layers"}) {
    check_refused({"train", "--resume", run, setting, "9"},
                  setting + ": the run goes on under its own configuration; leave it away");
  }
  check_refused({"train", "--resume", run, "--force"}, "--force: --resume replaces nothing; leave one of them away");
}

TEST_CASE("jnorm train: Control-C, or a terminal that is closed, writes a checkpoint and exits with 130") {
  for (const int signal : {SIGINT, SIGHUP}) {
    const TemporaryFolder folder;
    const std::string run = folder.file("run");
    const pid_t child = fork();
    if (child == 0) {
      std::signal(SIGHUP, SIG_DFL);  // the tests may run under nohup
      child_process::become_jnorm(train(run, {"--steps", "1000000"}), {});
    }
    await_file(run + "/metrics.jsonl", child);
    kill(child, signal);
    CHECK(child_process::exit_code_of(child) == 130);
    CHECK(std::filesystem::exists(run + "/checkpoint.safetensors"));
  }
}

TEST_CASE("jnorm train: a file beyond the limit for files is an error in words") {
  const TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const FileSizeLimit limit(2000);
    std::signal(SIGXFSZ, SIG_DFL);  // as a shell's ulimit leaves it
    child_process::become_jnorm(train(folder.file("run")), {});
  }
  CHECK(child_process::exit_code_of(child) == 1);
}

TEST_CASE("jnorm train: an existing folder is refused, and --force replaces it") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  REQUIRE(run_jnorm(train(run)).exit_code == 0);
  const std::string before = read_file(run + "/metrics.jsonl");
  CHECK(run_jnorm(train(run)).exit_code == 2);
  CHECK(read_file(run + "/metrics.jsonl") == before);
  CHECK(run_jnorm(train(run, {"--force"})).exit_code == 0);
}

TEST_CASE("jnorm train: a loss that isn't finite names where it began and exits with 4") {
  const TemporaryFolder folder;
  const Finished run =
      run_jnorm(train(folder.file("run"), {"--learning-rate", "1e30", "--optimizer", "sgd", "--clip-norm", "0"}));
  CHECK(run.exit_code == 4);
  CHECK(run.err.find(".cpp:") != std::string::npos);
}

TEST_CASE("jnorm train: bad values are refused in one line, and nothing is written") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  check_refused(train(run, {"--heads", "3"}), "heads: 3 don't divide dim 8");
  check_refused(train(run, {"--learning-rate", "nan"}),
                "learning-rate: expected a finite number that isn't negative, got nan");
  check_refused(train(run, {"--task-min-length", "99"}), "task-min-length: expected at most task-length 6, got 99");
  check_refused(train(run, {"--min-length", "2"}),
                "min-length: it is a text's; give that of task copy as task-min-length");
  check_refused(train(run, {"--mask-fraction", "0"}), "mask-fraction: expected a number in (0, 1], got 0");
  check_refused({"train"}, "--out: say which folder the run shall go to");
  CHECK(folder.entries() == 0);
}

TEST_CASE("jnorm train: a text that is too short says how many bytes it needs") {
  const TemporaryFolder folder;
  std::ofstream(folder.file("text")) << std::string(16, 'a');
  const Finished run = run_jnorm({"train", "--text", folder.file("text"), "--context", "16", "--validation-fraction",
                                  "0", "--out", folder.file("run")});
  CHECK(run.exit_code == 2);
  CHECK(run.err.find("17") != std::string::npos);
  CHECK(run.err.find("16") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder.file("run")));
}

TEST_CASE("jnorm train: says when it stopped early, and where the best checkpoint is") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  const std::vector<std::string> more{"--learning-rate", "0", "--patience", "2", "--evaluate-every", "3"};
  const Finished finished = run_jnorm(train(run, more));
  CHECK(finished.exit_code == 0);
  CHECK(finished.out.find("best.safetensors") != std::string::npos);
  const std::string metrics = read_file(run + "/metrics.jsonl");
  CHECK(std::count(metrics.begin(), metrics.end(), '\n') == 9);  // evaluations at 3, the best, 6 and 9
  std::vector<std::string> loud = train(folder.file("loud"), more);
  std::erase(loud, "-q");
  CHECK(run_jnorm(loud).err.find("stopped early after step 9 of 20: no better validation loss in 2 evaluations") !=
        std::string::npos);
}

TEST_CASE("jnorm train: a pattern that no parameter fits is refused with the nearest") {
  const TemporaryFolder folder;
  check_refused(train(folder.file("run"), {"--freeze", "token_embeding.*"}),
                "freeze: no parameter fits \"token_embeding.*\"; did you mean token_embedding.*?");
  CHECK(folder.entries() == 0);
}

TEST_CASE("jnorm train: says how many steps overflowed") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  std::vector<std::string> loud = train(run, {"--precision", "float16", "--loss-scale", "1e9"});
  std::erase(loud, "-q");
  const Finished finished = run_jnorm(loud);
  CHECK(finished.exit_code == 0);
  CHECK(finished.err.find(" of 20 steps were skipped, since their gradients overflowed; the loss scale is ") !=
        std::string::npos);
  std::istringstream lines(read_file(run + "/metrics.jsonl"));
  std::string first;
  std::getline(lines, first);
  CHECK(nlohmann::json::parse(first)["skipped"] == true);
}

namespace {

const std::string kLlama = JNORM_SOURCE "/tests/golden/hugging_face/llama";

std::vector<std::string> train_from(const std::string& origin, const std::string& folder,
                                    std::vector<std::string> more = {}) {
  std::vector<std::string> words{"train",   "--from", origin,    "--task", "copy",  "--task-length", "3",
                                 "--steps", "20",     "--batch", "4",      "--out", folder,          "-q"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("jnorm train --from: goes on with an imported model, and then with what came of it") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  REQUIRE(run_jnorm(train_from(kLlama, run)).exit_code == 0);
  const std::string config = read_file(run + "/config.toml");
  for (const char* const line : {"\narch = 'llama'", "\nplacement = 'pre'", "\neps = 0.01\n", "\nrotary-base = 100\n",
                                 "\nkey-heads = 2\n", "\nvocabulary = 40\n", "\ncontext = 12\n"}) {
    CHECK_MESSAGE(("\n" + config).find(line) != std::string::npos, line);
  }
  CHECK(run_jnorm(train_from(run, folder.file("second"), {"--dropout", "0.1"})).exit_code == 0);
  CHECK(read_file(folder.file("second") + "/config.toml").find("dropout = 0.1\n") != std::string::npos);
  CHECK(run_jnorm({"train", "--resume", run, "-q"}).exit_code == 0);
}

TEST_CASE("jnorm train --from: the model's own settings may be repeated, and others are refused") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  const auto refused = [&](const std::string& name, const std::string& value, const std::string& message) {
    check_refused(train_from(kLlama, run, {name, value}), message);
    CHECK_FALSE(std::filesystem::exists(run));
  };
  refused("--placement", "post", "--placement: the model of " + kLlama + " has pre, got post; leave it away");
  refused("--norm", "layer", "--norm: the model of " + kLlama + " has rms, got layer; leave it away");
  refused("--context", "6",
          "--context: the model of " + kLlama + " has 12, got 6; leave it away, or give --sequence-length");
  refused("--vocabulary", "50", "--vocabulary: the model of " + kLlama + " has 40, got 50; leave it away");
  CHECK(run_jnorm(train_from(kLlama, run, {"--placement", "pre", "--dim", "16"})).exit_code == 0);
}

TEST_CASE("jnorm train --from: data that need more tokens or positions than the model has are refused") {
  const TemporaryFolder folder;
  const std::string text = folder.file("text");
  std::ofstream(text) << std::string(400, 'a');
  check_refused(
      {"train", "--from", kLlama, "--text", text, "--out", folder.file("run")},
      "vocabulary: the model has 40 tokens, but the data need 256 (256 of their own, 0 special); take a model "
      "with more tokens, or other data");
  check_refused(train_from(kLlama, folder.file("run"), {"--task-length", "30"}),
                "context: the model has 12 positions, but the data need 60");
  check_refused(train_from(folder.file("none"), folder.file("run")),
                folder.file("none") + ": no such run folder or checkpoint");
  CHECK_FALSE(std::filesystem::exists(folder.file("run")));
}

TEST_CASE("jnorm train: a mistake around normalization is a warning, once, and the run goes on") {
  const TemporaryFolder folder;
  const std::vector<std::string> causal{"--norm", "batch", "--json", "--progress", "none"};
  std::vector<std::string> words = train(folder.file("run"), causal);
  std::erase(words, "-q");
  const Finished run = run_jnorm(words);
  CHECK(run.exit_code == 0);
  const nlohmann::json warnings = nlohmann::json::parse(run.out)["warnings"];
  REQUIRE(warnings.size() == 1);
  const std::string warning = warnings[0];
  CHECK(warning.starts_with("blocks.0.ffn.norm and 1 more: batch_norm in a causal model: "));
  CHECK(run.err == "warning: " + warning + "\n");
}

TEST_CASE("jnorm train: every architecture trains with another placement and norm than its own") {
  const char* const choices[][3] = {{"plain", "reordered", "dyt"},  {"vanilla", "pre", "rms"},
                                    {"bert", "pre", "group"},       {"gpt2", "post", "scale"},
                                    {"llama", "deepnorm", "layer"}, {"qwen", "keel", "none"}};
  CHECK(std::size(choices) == architectures().size());
  const TemporaryFolder folder;
  for (const auto& choice : choices) {
    const std::string architecture = choice[0];
    CAPTURE(architecture);
    std::istringstream recipe(fmt::format(
        "train --arch {} --placement {} --norm {} --task copy --task-length 2 --task-symbols 3 --layers 2 --dim 16 "
        "--heads 2 --init xavier --learning-rate 0.01 --warmup 50 --steps 200 --out {} --json -q",
        architecture, choice[1], choice[2], folder.file(architecture)));
    const Finished run = run_jnorm({std::istream_iterator<std::string>(recipe), {}});
    REQUIRE(run.exit_code == 0);
    CHECK(nlohmann::json::parse(run.out)["last"]["validation_accuracy"] == 1.0);
  }
}
