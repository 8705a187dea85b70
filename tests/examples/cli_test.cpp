#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <jnorm/core/files.hpp>
#include <jnorm/cuda/device.hpp>

#include "cli.hpp"
#include "examples/child_process.hpp"
#include "examples/refused.hpp"
#include "system_information.hpp"
#include "temporary_folder.hpp"

using namespace jnorm;

namespace {

// A command that does what the test wants.
class Doing final : public Command {
 public:
  using Work = std::function<void(const Session&, const Doing&)>;
  explicit Doing(Work work) : work_(std::move(work)) {}
  std::string name() const override { return "do"; }
  std::string summary() const override { return "does it"; }
  void add_flags(Flags& flags) override { flags.on_or_off("--final-norm", final_norm, "a norm at the end"); }
  void run(const Session& session) override { work_(session, *this); }
  bool final_norm = true;

 private:
  Work work_;
};

// `jnorm do ARGUMENTS`.
int program_doing(const Doing::Work& work, const std::vector<std::string>& arguments = {}) {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(std::make_unique<Doing>(work));
  std::vector<std::string> words = {"jnorm", "do"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return run_program(commands, static_cast<int>(argv.size()), argv.data());
}

// The same in a child process.
Finished run_doing(const Doing::Work& work, const std::vector<std::string>& arguments = {}) {
  return run_in_child([&] { return program_doing(work, arguments); });
}

Finished run_throwing(ErrorKind kind) {
  return run_doing([kind](const Session&, const Doing&) { throw Error(kind, "something"); });
}

}  // namespace

TEST_CASE("jnorm: the kind of an error decides the exit code, its message is one line") {
  CHECK(run_doing([](const Session&, const Doing&) {}).exit_code == 0);
  CHECK(run_throwing(ErrorKind::state).exit_code == 1);
  CHECK(run_throwing(ErrorKind::io).exit_code == 1);
  CHECK(run_throwing(ErrorKind::argument).exit_code == 2);
  CHECK(run_throwing(ErrorKind::file).exit_code == 2);
  CHECK(run_throwing(ErrorKind::check).exit_code == 3);
  CHECK(run_throwing(ErrorKind::non_finite).exit_code == 4);
  CHECK(run_throwing(ErrorKind::interrupted).exit_code == 130);
  CHECK(run_throwing(ErrorKind::check).err == "jnorm: something\n");
  const Finished out_of_memory = run_doing([](const Session&, const Doing&) { throw std::bad_alloc(); });
  CHECK(out_of_memory.exit_code == 1);
  CHECK(out_of_memory.err == "jnorm: memory ran out\n");
}

TEST_CASE("jnorm: a wrong word on the command line is one line that says what was expected") {
  check_refused({"inof"}, "inof: no such command; did you mean info?");
  check_refused({"check", "more"}, "check: unexpected word \"more\"");
  check_refused({"info", "--sede", "3"}, "--sede: no such option; did you mean --seed?");
  check_refused({"info", "--sede=3"}, "--sede: no such option; did you mean --seed?");
  check_refused({"info", "--zzz"}, "--zzz: no such option");
  check_refused({"--verison"}, "--verison: no such option; did you mean --version?");
  check_refused({"--seed", "3", "info"}, "--seed: options stand after the command: jnorm info --seed ...");
  check_refused({"info", "--seed", "-3"}, "--seed: expected a whole number that isn't negative, got \"-3\"");
  check_refused({"info", "--threads", "0"}, "--threads: expected at least 1, got 0");
  check_refused({"info", "--threads", "999999999"}, "--threads: expected at most 1024, got 999999999");
  check_refused({"info", "--dtype", "flaot64"},
                "--dtype: expected one of float32, float64, got \"flaot64\"; did you mean float64?");
  check_refused({"info", "--json=maybe"}, "--json: expected true or false, got \"maybe\"");
  check_refused({"info", "-q", "-v"}, "--quiet and --verbose exclude each other");
}

TEST_CASE("jnorm: a missing value isn't taken from the next option") {
  check_refused({"info", "--seed"}, "--seed: expected a value, got none");
  check_refused({"info", "--out=", "x"}, "--out: expected a value, got none");
  check_refused({"info", "--out", ""}, "--out: expected a value, got none");
  check_refused({"info", "--out", "", "--json"}, "--out: expected a value, got none");
  check_refused({"info", "--out", "--json"}, "--out: expected a value, got the option --json");
}

TEST_CASE("jnorm: without a GPU, a driver or CUDA --device cuda says what is missing") {
  const std::string missing = cuda::why_none();
  if (missing.empty()) return;
  check_refused({"probe", "--device", "cuda"},
                fmt::format("--device: cuda isn't available: {}; use --device cpu", missing));
}

TEST_CASE("jnorm: with a GPU a command that computes on the CPU alone refuses it") {
  if (!cuda::why_none().empty()) return;
  check_refused({"lesson", "--device", "cuda"}, "--device: lesson computes on the CPU alone; leave --device cuda away");
}

TEST_CASE("jnorm: without a command it names them") {
  const Finished run = run_jnorm({});
  CHECK(run.exit_code == 2);
  CHECK(run.err.starts_with("jnorm: expected a command: "));
  CHECK(run.err.find("info") != std::string::npos);
}

TEST_CASE("jnorm: of an option given twice the last counts") {
  const auto show_seed = [](const Session& session, const Doing&) { fmt::print("{}", session.common().seed); };
  CHECK(run_doing(show_seed, {"--seed", "3", "--seed", "4"}).out == "4");
}

TEST_CASE("jnorm: what is on by default can be turned off, and on again") {
  const auto show = [](const Session&, const Doing& doing) { fmt::print("{}", doing.final_norm); };
  CHECK(run_doing(show).out == "true");
  CHECK(run_doing(show, {"--no-final-norm"}).out == "false");
  CHECK(run_doing(show, {"--no-final-norm", "--final-norm"}).out == "true");
}

TEST_CASE("jnorm --config: its settings count where the command line is silent") {
  const TemporaryFolder folder;
  std::ofstream(folder.file("run.toml")) << "seed = 7\nthreads = 1\nfinal_norm = false\n";
  const auto show = [](const Session& session, const Doing& doing) {
    fmt::print("{} {} {}", session.common().seed, session.common().threads, doing.final_norm);
  };
  CHECK(run_doing(show, {"--config", folder.file("run.toml")}).out == "7 1 false");
  CHECK(run_doing(show, {"--seed", "9", "--config", folder.file("run.toml"), "--final-norm"}).out == "9 1 true");
}

TEST_CASE("jnorm --config: a wrong key or value is named with its file and line") {
  const TemporaryFolder folder;
  const std::string path = folder.file("run.toml");
  const auto check_config = [&](const std::string& text, const std::string& message) {
    std::ofstream(path) << text;
    check_refused({"info", "--config", path}, "'" + path + "', line " + message);
  };
  check_config("threads = 1\nsede = 7\n", "2: sede: no such key; did you mean seed?");
  check_config("seed = \"seven\"\n", "1: seed: expected a whole number that isn't negative, got \"seven\"");
  check_config("json = yes\n", "1: json: expected true or false, got \"yes\"");
  check_config("config = \"other.toml\"\n", "1: config: a configuration file names no other");
  check_refused({"info", "--config", folder.file("none.toml")},
                "cannot read '" + folder.file("none.toml") + "': No such file or directory");
}

TEST_CASE("jnorm --version: version, BLAS, compiler and devices") {
  const Finished run = run_jnorm({"--version"});
  CHECK(run.exit_code == 0);
  CHECK(run.err == "");
  CHECK(run.out.starts_with("jnorm 0."));
  const std::string devices = "devices   " + devices_description();
  for (const std::string& part : {std::string("BLAS      OpenBLAS"), std::string("compiler  "), devices}) {
    CHECK(run.out.find(part) != std::string::npos);
  }
}

TEST_CASE("jnorm --help: names every command, and a command's help every option with its default") {
  CHECK(run_jnorm({"--help"}).out.find("\n  info ") != std::string::npos);
  const Finished run = run_jnorm({"info", "--help"});
  CHECK(run.exit_code == 0);
  for (const char* const part : {"usage: jnorm info [model] [options]\n", "\n  --seed N ", " (1)\n",
                                 "\n  --device cpu|cuda ", "\n  -q, --quiet "}) {
    CHECK(run.out.find(part) != std::string::npos);
  }
}

TEST_CASE("jnorm --out: the result goes into the folder, and replaces nothing without --force") {
  const TemporaryFolder folder;
  const std::string out = folder.file("new/deep");
  const Finished first = run_jnorm({"info", "--out", out});
  CHECK(first.exit_code == 0);
  CHECK(first.out == "");
  CHECK(first.err == "wrote " + out + "/info.txt\n");
  CHECK(read_file(out + "/info.txt") == run_jnorm({"info"}).out);
  check_refused({"info", "--out", out}, "--out: " + out + "/info.txt exists already; --force replaces it");
  CHECK(run_jnorm({"info", "--out", out, "--force", "-q"}).err == "");

  const Finished json = run_jnorm({"info", "--out", out, "--json"});
  CHECK(read_file(out + "/info.json") == json.out);
  CHECK(nlohmann::json::parse(json.out).is_object());
}

TEST_CASE("jnorm --out: a file in the way of the folder is wrong usage") {
  const TemporaryFolder folder;
  std::ofstream(folder.file("file")) << "x";
  const Finished run = run_jnorm({"info", "--out", folder.file("file")});
  CHECK(run.exit_code == 2);
  CHECK(run.err.starts_with("jnorm: --out: "));
}

TEST_CASE("jnorm: notes are silent with -q, details speak with -v, both on standard error") {
  const auto speak = [](const Session& session, const Doing&) {
    session.note("a note");
    session.detail("a detail");
  };
  CHECK(run_doing(speak).err == "a note\n");
  CHECK(run_doing(speak, {"-q"}).err == "");
  CHECK(run_doing(speak, {"-v"}).err == "a note\na detail\n");
  CHECK(run_doing(speak, {"-v"}).out == "");
}

TEST_CASE("jnorm: output that can't be written is a failure") {
  const Finished run = run_in_child([]() -> int {
    dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO);
    child_process::become_jnorm({"info"}, {});
  });
  CHECK(run.exit_code == 1);
  CHECK(run.err == "jnorm: can't write to standard output: No space left on device\n");
}

TEST_CASE("jnorm: notes and errors that can't be written change neither work nor exit code") {
  const auto to_full_disk = [](const std::vector<std::string>& arguments) {
    return run_in_child([&]() -> int {
      dup2(open("/dev/full", O_WRONLY), STDERR_FILENO);
      child_process::become_jnorm(arguments, {});
    });
  };
  CHECK(to_full_disk({"info", "--no-such"}).exit_code == 2);
  const Finished probe = to_full_disk({"probe", "--layers=1", "--dim=4", "--heads=1", "--context=2", "--json"});
  CHECK(probe.exit_code == 0);
  CHECK(nlohmann::json::accept(probe.out));
}

TEST_CASE("jnorm: a file that is opened doesn't take the place of a closed standard stream") {
  const Finished run = run_in_child([] {
    close(STDERR_FILENO);
    return program_doing([](const Session&, const Doing&) {
      if (open("/dev/null", O_WRONLY) <= STDERR_FILENO) throw Error(ErrorKind::state, "it takes the place");
    });
  });
  CHECK(run.exit_code == 0);
}

TEST_CASE("jnorm: a name with a newline or a terminal's codes leaves the message one line") {
  check_refused({"info", "--a\nb"}, "--a\\x0ab: no such option");
  check_refused({"sample", "\x1b[1mx"}, "\\x1b[1mx: no such run folder or checkpoint");
}

TEST_CASE("jnorm: colours on a terminal, none with NO_COLOR or elsewhere") {
  CHECK(run_jnorm_on_terminal({"info"}, {"NO_COLOR="}).out.find("\x1b[1m") != std::string::npos);
  CHECK(run_jnorm_on_terminal({"info"}, {"NO_COLOR=1"}).out.find('\x1b') == std::string::npos);
  CHECK(run_jnorm({"info"}).out.find('\x1b') == std::string::npos);
}

TEST_CASE("jnorm COMMAND --help: no line is wider than 100 columns where no terminal says otherwise") {
  for (const char* const command : {"train", "info", "probe", "graph", "demo", "check", "sample", "lesson"}) {
    CAPTURE(command);
    std::istringstream lines(run_jnorm({command, "--help"}).out);
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      CHECK(line.size() <= 100);
    }
  }
}

TEST_CASE("jnorm train --help: many choices stand below the help, in lines of their own") {
  const std::string help = run_jnorm({"train", "--help"}).out;
  CHECK(help.find("\nNorm and placement\n  --placement NAME ") != std::string::npos);
  CHECK(help.find("where the norm stands (pre)\n") != std::string::npos);
  CHECK(help.find("  pre, post, sandwich, ") != std::string::npos);
  CHECK(help.find("  --[no-]final-norm ") != std::string::npos);
}
