#include <jnorm/layers/run_folder.hpp>

#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <layers/small_run.hpp>
#include <temporary_folder.hpp>

#include <jnorm/core/files.hpp>
#include <jnorm/layers/run_toml.hpp>

using namespace jnorm;

namespace {

namespace fs = std::filesystem;

void write(const std::string& path, const std::string& bytes) { std::ofstream(path) << bytes; }

StepMetrics metrics_of(Index step) {
  StepMetrics metrics;
  metrics.step = step;
  return metrics;
}

}  // namespace

TEST_CASE("run folder: its configuration is read back") {
  const TemporaryFolder temporary;
  RunFolder::create(temporary.file("a"), small_run());
  CHECK(to_toml(RunFolder::open(temporary.file("a")).config()) == to_toml(small_run()));
}

TEST_CASE("run folder: the folders above are made too") {
  const TemporaryFolder temporary;
  RunFolder::create(temporary.file("runs/today/a"), small_run());
  CHECK(fs::exists(temporary.file("runs/today/a/config.toml")));
}

TEST_CASE("run folder: an existing one is refused and left as it was") {
  const TemporaryFolder temporary;
  const std::string path = temporary.file("a");
  RunFolder::create(path, small_run());
  const std::string before = read_file(path + "/config.toml");
  CHECK_THROWS_WITH_AS(
      RunFolder::create(path, small_run(77)),
      ("folder '" + path + "' exists: resume its run, replace it by force, or name another one").c_str(), Error);
  CHECK(read_file(path + "/config.toml") == before);
}

TEST_CASE("run folder: an empty one, and one that a killed start left, are as good as none") {
  const TemporaryFolder temporary;
  fs::create_directory(temporary.file("a"));
  write(temporary.file("a/config.toml.partial-12-0"), "plac");
  RunFolder::create(temporary.file("a"), small_run());
  CHECK(fs::exists(temporary.file("a/config.toml")));
  CHECK_FALSE(fs::exists(temporary.file("a/config.toml.partial-12-0")));
}

TEST_CASE("run folder: replacing removes the earlier run's files and no others") {
  const TemporaryFolder temporary;
  const std::string path = temporary.file("a");
  RunFolder::create(path, small_run());
  for (const char* const name :
       {"/metrics.jsonl", "/checkpoint.safetensors", "/best.safetensors", "/report.html", "/notes.txt"}) {
    write(path + name, "x");
  }
  RunFolder::create(path, small_run(77), Existing::replace);
  CHECK(RunFolder::open(path).config().training.steps == 77);
  CHECK_FALSE(fs::exists(path + "/metrics.jsonl"));
  CHECK_FALSE(fs::exists(path + "/checkpoint.safetensors"));
  CHECK_FALSE(fs::exists(path + "/best.safetensors"));
  CHECK_FALSE(fs::exists(path + "/report.html"));
  CHECK(fs::exists(path + "/notes.txt"));
}

TEST_CASE("run folder: a file in its place is refused, by force too") {
  const TemporaryFolder temporary;
  write(temporary.file("a"), "x");
  const std::string message = fmt::format("'{}' exists and is no folder: name another one", temporary.file("a"));
  CHECK_THROWS_WITH_AS(RunFolder::create(temporary.file("a"), small_run(), Existing::replace), message.c_str(), Error);
  CHECK(read_file(temporary.file("a")) == "x");
}

TEST_CASE("run folder: a folder that can't be made is an error of the system") {
  CHECK_THROWS_WITH_AS(RunFolder::create("/proc/a", small_run()), doctest::Contains("cannot make folder '/proc/a': "),
                       Error);
}

TEST_CASE("run folder: opening what isn't one says so") {
  const TemporaryFolder temporary;
  CHECK_THROWS_WITH_AS(RunFolder::open("/nowhere/a"), "no run folder at '/nowhere/a': No such file or directory",
                       Error);
  const std::string message =
      fmt::format("'{}' is no run folder: it has no config.toml; start a run without resuming", temporary.path());
  CHECK_THROWS_WITH_AS(RunFolder::open(temporary.path()), message.c_str(), Error);
}

TEST_CASE("run folder: two at a time can't have it") {
  const TemporaryFolder temporary;
  const std::string path = temporary.file("a");
  const RunFolder folder = RunFolder::create(path, small_run());
  const std::string message = "another process is training in '" + path + "': wait for it, or stop it";
  CHECK_THROWS_WITH_AS(RunFolder::open(path), message.c_str(), Error);
  CHECK_THROWS_WITH_AS(RunFolder::create(path, small_run(), Existing::replace), message.c_str(), Error);
}

TEST_CASE("run folder: a file that the run would write is no input of it") {
  const TemporaryFolder temporary;
  fs::create_directories(temporary.file("a/inner"));
  const std::string path = temporary.file("a");
  CHECK_THROWS_WITH_AS(RunFolder::expect_not_written(path, path + "/inner/../metrics.jsonl"),
                       doctest::Contains("/metrics.jsonl' is a file that the run in '"), Error);
  CHECK_THROWS_AS(RunFolder::expect_not_written(path + "/", path + "/report.html"), Error);
  RunFolder::expect_not_written(path, path + "/notes.txt");
  RunFolder::expect_not_written(path, path + "/inner/metrics.jsonl");
  RunFolder::expect_not_written(temporary.file("none"), temporary.file("metrics.jsonl"));
}

TEST_CASE("run folder: discarding removes the run's files, and the folder if nothing else is in it") {
  const TemporaryFolder temporary;
  RunFolder::create(temporary.file("a"), small_run()).discard();
  CHECK_FALSE(fs::exists(temporary.file("a")));
  fs::create_directory(temporary.file("b"));
  write(temporary.file("b/notes.txt"), "x");
  RunFolder::create(temporary.file("b"), small_run(), Existing::replace).discard();
  CHECK_FALSE(fs::exists(temporary.file("b/config.toml")));
  CHECK(fs::exists(temporary.file("b/notes.txt")));
}

TEST_CASE("run folder: metrics grow line by line, and are cut to a step") {
  const TemporaryFolder temporary;
  RunFolder folder = RunFolder::create(temporary.file("a"), small_run());
  for (Index step = 1; step <= 3; ++step) folder.append(metrics_of(step));
  CHECK(read_file(folder.metrics_path()) ==
        to_json_line(metrics_of(1)) + "\n" + to_json_line(metrics_of(2)) + "\n" + to_json_line(metrics_of(3)) + "\n");
  folder.rewind(1);
  folder.append(metrics_of(2));
  CHECK(read_file(folder.metrics_path()) == to_json_line(metrics_of(1)) + "\n" + to_json_line(metrics_of(2)) + "\n");
}

TEST_CASE("run folder: what interrupted writes left aside goes when it is gone on with") {
  const TemporaryFolder temporary;
  RunFolder folder = RunFolder::create(temporary.file("a"), small_run());
  write(temporary.file("a/checkpoint.safetensors.partial-12-0"), "x");
  folder.rewind(0);
  CHECK_FALSE(fs::exists(temporary.file("a/checkpoint.safetensors.partial-12-0")));
}
