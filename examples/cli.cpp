#include "cli.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>

#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/files.hpp>
#include <jnorm/core/nearest_word.hpp>
#include <jnorm/core/parallel.hpp>
#include <jnorm/cuda/device.hpp>

#include "config_file.hpp"
#include "help.hpp"
#include "system_information.hpp"

namespace jnorm {

namespace {

// A command with its options, in our terms and in CLI11's, which cuts the command line into words for us.
struct Entry {
  Command* command = nullptr;
  CommonFlags common;
  Flags flags;
  CLI::App* parser = nullptr;
  std::vector<CLI::Option*> options;  // beside flags.all()
};

void add_common_flags(Flags& flags, CommonFlags& common) {
  flags.group("Common options");
  flags.add("--seed", common.seed, "N", "where all random numbers start");
  common.threads = thread_count();
  flags.add("--threads", common.threads, "N", "threads that compute", 1);
  flags.choice("--device", common.device, {"cpu", "cuda"}, "where it computes");
  flags.choice("--dtype", common.dtype, std::vector{DType::float32, DType::float64}, "the type of the numbers");
  flags.add("--out", common.out, "DIR", "write the result into this folder");
  flags.toggle("--force", common.force, "replace what is there already");
  flags.add("--config", common.config, "FILE.toml", "take options from a file; the command line wins");
  flags.toggle("--json", common.json, "print one JSON object instead of text");
  flags.choice("--progress", common.progress,
               std::vector{ProgressMode::automatic, ProgressMode::bar, ProgressMode::lines, ProgressMode::none},
               "how progress is shown; auto: a bar on a terminal, else lines");
  flags.toggle("--quiet", common.quiet, "say nothing but the result").short_name = "-q";
  flags.toggle("--verbose", common.verbose, "say more").short_name = "-v";
}

CLI::Option* register_flag(CLI::App& parser, const Flag& flag) {
  if (flag.kind == Flag::Kind::positional) return parser.add_option(flag.name);
  std::string names = flag.short_name.empty() ? flag.name : flag.short_name + "," + flag.name;
  if (flag.kind == Flag::Kind::option) return parser.add_option(names)->take_last();
  if (!flag.negation.empty()) names += ",!" + flag.negation;
  const std::string no_description;
  return parser.add_flag(names, no_description)->take_last();
}

// Sets the option; an error's message, which begins with the option's key, gets `before` in front.
void set_flag(Flag& flag, const std::string& value, const std::string& before, ErrorKind kind) {
  try {
    flag.set(value);
  } catch (const Error& error) {
    fail(kind, "{}{}", before, error.what());
  }
  flag.given = true;
}

// A setting of a configuration file, and the option that it sets.
struct FileSetting {
  Flag* flag;
  std::string value;
  std::string where;
};

std::vector<FileSetting> settings_of_file(Flags& flags, const std::string& path) {
  std::vector<FileSetting> settings;
  for (const Setting& setting : read_config_file(path)) {
    const std::string where = fmt::format("'{}', line {}: ", path, setting.line);
    if (setting.key == "config") fail(ErrorKind::file, "{}config: a configuration file names no other", where);
    Flag* const flag = flags.find_key(setting.key);
    if (flag == nullptr) {
      fail(ErrorKind::file, "{}{}: no such key{}", where, setting.key, did_you_mean(setting.key, flags.keys()));
    }
    settings.push_back({flag, setting.value, where});
  }
  return settings;
}

void apply_word(Entry& entry, Flag& flag, const std::string& value) {
  const std::vector<std::string> names = entry.flags.names();
  const bool is_option = std::find(names.begin(), names.end(), value) != names.end();
  expect(flag.kind == Flag::Kind::toggle || !is_option, "{}: expected a value, got the option {}", flag.name, value);
  expect(flag.kind != Flag::Kind::option || !value.empty(), "{}: expected a value, got none", flag.name);
  set_flag(flag, value, flag.kind == Flag::Kind::positional ? "" : "--", ErrorKind::argument);
}

// What sets other options too can't win over a file that sets it: the file's other lines were meant for its own value.
void refuse_contradiction(const Flag& flag, const std::string& value, const std::vector<FileSetting>& from_file) {
  for (const FileSetting& setting : from_file) {
    expect(setting.flag != &flag || setting.value == value, "{}: {}{} is {} there, but {} here; give one of them",
           flag.name, setting.where, flag.key(), setting.value, value);
  }
}

// A configuration file first, so that the command line wins; and before both, what sets other options too.
void apply_flags(Entry& entry) {
  std::vector<Flag>& flags = entry.flags.all();
  const auto words = [&](std::size_t i) { return entry.options[i]->results(); };
  std::vector<FileSetting> from_file;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i].key() == "config" && !words(i).empty()) from_file = settings_of_file(entry.flags, words(i).back());
  }
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i].comes_first && !words(i).empty()) refuse_contradiction(flags[i], words(i).back(), from_file);
  }
  for (const bool comes_first : {true, false}) {
    for (const auto& [flag, value, where] : from_file) {
      if (flag->comes_first == comes_first) set_flag(*flag, value, where, ErrorKind::file);
    }
    for (std::size_t i = 0; i < flags.size(); ++i) {
      if (flags[i].comes_first == comes_first && !words(i).empty()) apply_word(entry, flags[i], words(i).back());
    }
  }
}

void apply_common(const CommonFlags& common, const Flags& flags, const Command& command) {
  if (common.device == "cuda") {
    const std::string reason = cuda::why_none();
    expect(reason.empty(), "--device: cuda isn't available: {}; use --device cpu", reason);
    expect(command.computes_on_devices(), "--device: {} computes on the CPU alone; leave --device cuda away",
           command.name());
  }
  expect(!common.quiet || !common.verbose, "--quiet and --verbose exclude each other");
  if (flags.given("--threads")) {
    constexpr Index most = 1024;
    expect(common.threads <= most, "--threads: expected at most {}, got {}", most, common.threads);
    set_thread_count(static_cast<int>(common.threads));
  }
}

// "--placment=pre" -> "--placment".
std::string option_name(const std::string& word) { return word.substr(0, word.find('=')); }

// The first word that CLI11 could make nothing of.
[[noreturn]] void fail_on_extra_word(const CLI::App& root, const std::vector<Entry>& entries) {
  const auto first_extra = [](const CLI::App& parser) {
    const std::vector<std::string> words = parser.remaining();
    const auto dashed = std::find_if(words.begin(), words.end(), [](const auto& w) { return w.starts_with('-'); });
    return dashed != words.end() ? *dashed : words.empty() ? "" : words.front();
  };
  const std::string before = first_extra(root);
  for (const Entry& entry : entries) {
    if (!entry.parser->parsed()) continue;
    const std::vector<std::string> names = entry.flags.names();
    if (!before.empty() && std::find(names.begin(), names.end(), option_name(before)) != names.end()) {
      fail(ErrorKind::argument, "{}: options stand after the command: jnorm {} {} ...", option_name(before),
           entry.command->name(), option_name(before));
    }
    const std::string word = before.empty() ? first_extra(*entry.parser) : before;
    expect(word.starts_with('-'), "{}: unexpected word {}", entry.command->name(), in_quotes(word));
    fail(ErrorKind::argument, "{}: no such option{}", option_name(word), did_you_mean(option_name(word), names));
  }
  std::vector<std::string> commands;
  for (const Entry& entry : entries) commands.push_back(entry.command->name());
  if (before.starts_with('-')) {
    fail(ErrorKind::argument, "{}: no such option{}", before, did_you_mean(before, {"--help", "--version"}));
  }
  expect(!before.empty(), "expected a command: {} (jnorm --help says what they do)", joined(commands, ", "));
  fail(ErrorKind::argument, "{}: no such command{}", before, did_you_mean(before, commands));
}

// Our words for what CLI11 found wrong.
[[noreturn]] void fail_on_parse_error(const CLI::ParseError& error, const CLI::App& root,
                                      const std::vector<Entry>& entries) {
  const std::string message = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
      dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    fail_on_extra_word(root, entries);
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    fail(ErrorKind::argument, "{}: expected a value, got none", message.substr(0, message.find(':')));
  }
  fail(ErrorKind::argument, "{}", message.substr(0, message.find('\n')));
}

// CLI11 would take the next word for the value.
void refuse_empty_values(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") return;
    expect(!word.starts_with("--") || !word.ends_with('='), "{}: expected a value, got none", option_name(word));
  }
}

void parse_and_run(const std::vector<std::unique_ptr<Command>>& commands, int argc, char** argv) {
  CLI::App root;
  bool wants_version = false;
  root.add_flag("--version", wants_version);
  root.require_subcommand(0, 1);
  std::vector<Entry> entries(commands.size());
  for (std::size_t i = 0; i < commands.size(); ++i) {
    Entry& entry = entries[i];
    entry.command = commands[i].get();
    entry.command->add_flags(entry.flags);
    add_common_flags(entry.flags, entry.common);
    entry.parser = root.add_subcommand(entry.command->name());
    for (const Flag& flag : entry.flags.all()) entry.options.push_back(register_flag(*entry.parser, flag));
  }
  const auto chosen = [&]() -> Entry* {
    const auto found = std::find_if(entries.begin(), entries.end(), [](const Entry& e) { return e.parser->parsed(); });
    return found == entries.end() ? nullptr : &*found;
  };
  try {
    refuse_empty_values(argc, argv);
    root.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const Style style = Style::for_stream(stdout);
    const Entry* const entry = chosen();
    fmt::print("{}",
               entry != nullptr ? command_help(*entry->command, entry->flags, style) : program_help(commands, style));
    return;
  } catch (const CLI::ParseError& error) {
    fail_on_parse_error(error, root, entries);
  }
  if (wants_version) {
    fmt::print("{}", version_text());
    return;
  }
  Entry* const entry = chosen();
  if (entry == nullptr) fail_on_extra_word(root, entries);
  apply_flags(*entry);
  apply_common(entry->common, entry->flags, *entry->command);
  entry->command->run(Session(entry->common, entry->flags));
}

// The number of a closed stream would go to the next file that is opened, and messages into that file.
void keep_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) == -1) ::open("/dev/null", O_RDONLY);  // takes the lowest free number
  }
}

void finish_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    fail(ErrorKind::io, "can't write to standard output: {}", std::strerror(errno));
  }
}

// Names in a message, such as a file's, may hold a newline or a terminal's codes.
std::string in_one_line(const std::string& message) {
  std::string line;
  for (const char c : message) {
    const auto code = static_cast<unsigned char>(c);
    line += code < 0x20 || code == 0x7f ? fmt::format("\\x{:02x}", code) : std::string(1, c);
  }
  return line;
}

int report(const std::string& message, int code) {
  std::fflush(stdout);
  say(stderr, fmt::format("{} {}\n", Style::for_stream(stderr).red("jnorm:"), in_one_line(message)));
  return code;
}

}  // namespace

Device Session::device() const { return common_.device == "cuda" ? cuda::device() : Device::cpu(); }

void Session::show(const std::string& name, const Text& text, const Json& json) const {
  constexpr int indentation = 2;
  const std::string object = common_.json ? json().dump(indentation) + "\n" : "";
  if (!common_.out.empty()) {
    expect_free(name);
    std::error_code error;
    std::filesystem::create_directories(common_.out, error);
    if (error) fail(ErrorKind::argument, "--out: can't make the folder {}: {}", common_.out, error.message());
    write_file_atomically(path_of(name), common_.json ? object : text(Style()));
    note("wrote " + path_of(name));
  }
  if (common_.json) {
    fmt::print("{}", object);
  } else if (common_.out.empty()) {
    fmt::print("{}", text(Style::for_stream(stdout)));
  }
}

std::string Session::path_of(const std::string& name) const {
  const std::filesystem::path path(name);
  return (std::filesystem::path(common_.out) / (common_.json ? path.stem().string() + ".json" : name)).string();
}

void Session::expect_free(const std::string& name) const {
  expect(common_.out.empty() || common_.force || !std::filesystem::exists(path_of(name)),
         "--out: {} exists already; --force replaces it", path_of(name));
}

void Session::expect_not_input(const std::string& name, const std::string& input) const {
  std::error_code missing;
  expect(common_.out.empty() || !std::filesystem::equivalent(path_of(name), input, missing),
         "--out: {} is what the command reads; name another folder", path_of(name));
}

void Session::note(std::string_view line) const {
  if (!common_.quiet) say(stderr, fmt::format("{}\n", line));
}

void Session::detail(std::string_view line) const {
  if (common_.verbose) say(stderr, fmt::format("{}\n", line));
}

Progress Session::progress(Progress::Task task) const {
  return Progress(std::move(task), common_.quiet ? ProgressMode::none : common_.progress, stderr);
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::argument:
    case ErrorKind::file: return 2;
    case ErrorKind::state:
    case ErrorKind::io: return 1;
    case ErrorKind::check: return 3;
    case ErrorKind::non_finite: return 4;
    case ErrorKind::interrupted: return 130;
  }
  return 1;
}

int run_program(const std::vector<std::unique_ptr<Command>>& commands, int argc, char** argv) {
  keep_standard_streams();
  try {
    parse_and_run(commands, argc, argv);
    finish_output();
    return 0;
  } catch (const Error& error) {
    return report(error.what(), exit_code(error.kind()));
  } catch (const std::bad_alloc&) {
    return report("memory ran out", exit_code(ErrorKind::io));
  } catch (const std::exception& error) {
    return report(error.what(), exit_code(ErrorKind::io));
  }
}

}  // namespace jnorm
