#pragma once

// The frame around jnorm's commands: the options that all of them share, where their output goes, and what the program
// says and returns when something fails.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <jnorm/core/device.hpp>
#include <jnorm/core/dtype.hpp>
#include <jnorm/core/error.hpp>

#include "flags.hpp"
#include "terminal.hpp"

namespace jnorm {

struct CommonFlags {
  std::uint64_t seed = 1;
  Index threads = 1;  // as many as there are cores, unless told otherwise
  std::string device = "cpu";
  DType dtype = DType::float32;
  std::string out;  // a folder, or empty
  bool force = false;
  std::string config;  // a TOML file, or empty
  bool json = false;
  ProgressMode progress = ProgressMode::automatic;
  bool quiet = false;
  bool verbose = false;
};

// What a command is run with.
class Session {
 public:
  Session(const CommonFlags& common, const Flags& flags) : common_(common), flags_(flags) {}

  const CommonFlags& common() const { return common_; }
  bool given(std::string_view flag) const { return flags_.given(flag); }
  // The one that --device names. Throws Error(argument) where there is none.
  Device device() const;
  // The named option, or the command's own default where the user chose nothing.
  DType dtype_or(DType usual) const { return given("--dtype") ? common_.dtype : usual; }

  // The command's result: one JSON object with --json, else text. With --out it goes to a file of that folder, called
  // `name` (of JSON: with the extension json); --json prints the object as well. Throws Error(argument) if the file
  // exists, unless there is --force.
  using Text = std::function<std::string(const Style&)>;
  using Json = std::function<nlohmann::ordered_json()>;
  void show(const std::string& name, const Text& text, const Json& json) const;
  // Throws what show() would for a file that exists: before long work, and not after it.
  void expect_free(const std::string& name) const;
  // Throws Error(argument) if it would replace a file that the command reads, by force or not.
  void expect_not_input(const std::string& name, const std::string& input) const;

  // Lines to standard error: notes unless -q, details only with -v.
  void note(std::string_view line) const;
  void detail(std::string_view line) const;
  Progress progress(Progress::Task task) const;

 private:
  std::string path_of(const std::string& name) const;  // in the folder --out

  const CommonFlags& common_;
  const Flags& flags_;
};

// A subcommand: a file of its own in examples/.
class Command {
 public:
  virtual ~Command() = default;
  virtual std::string name() const = 0;
  virtual std::string summary() const = 0;                    // one line, for the list of commands
  virtual std::string details() const { return ""; }          // some lines more, for its own help
  virtual void add_flags(Flags& flags) = 0;                   // their targets are members of the command
  virtual bool computes_on_devices() const { return false; }  // and not on the CPU alone
  // Throws jnorm::Error if it can't do its work; Error(check) if it found that something doesn't hold.
  virtual void run(const Session& session) = 0;
};

// The one place that knows them: 0 done, 1 failed while running, 2 wrong usage or wrong input file, 3 a check did not
// hold, 4 a value that isn't finite, 130 interrupted.
int exit_code(ErrorKind kind);

// Parses the command line, runs the command, reports errors as one line on standard error; returns the exit code.
int run_program(const std::vector<std::unique_ptr<Command>>& commands, int argc, char** argv);

}  // namespace jnorm
