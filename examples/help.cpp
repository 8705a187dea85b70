#include "help.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace jnorm {

namespace {

// Two columns, indented; the left one as wide as its widest word, but no wider than `most`: then the right one begins
// on the next line.
std::string two_columns(const std::vector<std::pair<std::string, std::string>>& rows, std::size_t width) {
  std::string text;
  for (const auto& [left, right] : rows) {
    text += fmt::format("  {:<{}}", left, width);
    if (left.size() > width) text += fmt::format("\n  {:<{}}", "", width);
    text += fmt::format("  {}\n", right);
  }
  return text;
}

std::string left_column(const Flag& flag) {
  std::string text = flag.short_name.empty() ? flag.name : flag.short_name + ", " + flag.name;
  if (!flag.negation.empty()) text += ", " + flag.negation;
  return flag.values.empty() ? text : text + " " + flag.values;
}

std::string right_column(const Flag& flag) {
  return flag.default_value.empty() ? flag.help : fmt::format("{} ({})", flag.help, flag.default_value);
}

std::string usage(const Command& command, const Flags& flags) {
  std::string text = "jnorm " + command.name();
  for (const Flag& flag : flags.all()) {
    if (flag.kind == Flag::Kind::positional) text += " [" + flag.name + "]";
  }
  return text + " [options]";
}

}  // namespace

std::string program_help(const std::vector<std::unique_ptr<Command>>& commands, const Style& style) {
  std::vector<std::pair<std::string, std::string>> rows;
  std::size_t width = 0;
  for (const auto& command : commands) {
    rows.emplace_back(command->name(), command->summary());
    width = std::max(width, command->name().size());
  }
  return style.bold("jnorm") + ": trains small Transformers and shows what normalization does to their gradients\n\n" +
         style.bold("commands") + "\n" + two_columns(rows, width) +
         "\n`jnorm COMMAND --help` lists a command's options; `jnorm --version` says what this build is made of.\n";
}

std::string command_help(const Command& command, const Flags& flags, const Style& style) {
  constexpr std::size_t widest = 34;
  std::size_t width = 0;
  std::vector<std::string> groups;
  for (const Flag& flag : flags.all()) {
    const std::size_t left = left_column(flag).size();
    if (left <= widest) width = std::max(width, left);
    if (std::find(groups.begin(), groups.end(), flag.group) == groups.end()) groups.push_back(flag.group);
  }
  std::string text = fmt::format("{}: {}\n\n{} {}\n", style.bold("jnorm " + command.name()), command.summary(),
                                 style.bold("usage:"), usage(command, flags));
  if (!command.details().empty()) text += fmt::format("\n{}", command.details());
  for (const std::string& group : groups) {
    std::vector<std::pair<std::string, std::string>> rows;
    for (const Flag& flag : flags.all()) {
      if (flag.group == group) rows.emplace_back(left_column(flag), right_column(flag));
    }
    text += fmt::format("\n{}{}", group.empty() ? "" : style.bold(group) + "\n", two_columns(rows, width));
  }
  return text;
}

}  // namespace jnorm
