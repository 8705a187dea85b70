#include "help.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace jnorm {

namespace {

constexpr std::size_t kWidest = 120;  // longer lines are hard to read

std::size_t line_width() { return std::min(static_cast<std::size_t>(columns_of(stdout)), kWidest); }

// Words in lines of at most `width` characters, unless a word alone is longer. Line breaks in the text stay.
std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    std::string& line = lines.back();
    if (!line.empty() && display_width(line) + 1 + display_width(word) > width) {
      lines.emplace_back(word);
    } else {
      line += line.empty() ? word : fmt::format(" {}", word);
    }
    if (end < text.size() && text[end] == '\n') lines.emplace_back();
    begin = end + 1;
  }
  return lines;
}

std::string paragraph(std::string_view text) {
  return fmt::format("{}\n", fmt::join(wrapped(text, line_width()), "\n"));
}

// Two columns, indented. Where the left one is wider than `left`, the right one begins on the next line.
std::string two_columns(const std::vector<std::pair<std::string, std::string>>& rows, std::size_t left) {
  constexpr std::size_t narrowest = 20;
  const std::size_t right = std::max(line_width(), left + 4 + narrowest) - left - 4;
  std::string text;
  for (const auto& [name, help] : rows) {
    std::string beside = name;
    if (name.size() > left) {
      text += fmt::format("  {}\n", name);
      beside.clear();
    }
    for (const std::string& line : wrapped(help, right)) {
      text += fmt::format("  {:<{}}  {}\n", std::exchange(beside, ""), left, line);
    }
  }
  return text;
}

// "pre|post|..." beside the option while that is short, else in lines of its own below the help.
bool has_many_choices(const Flag& flag) {
  constexpr std::size_t longest = 16;
  return flag.values.size() > longest && flag.values.find('|') != std::string::npos;
}

std::string choices_of(const Flag& flag) {
  std::string choices;
  for (const char c : flag.values) choices += c == '|' ? ", " : std::string(1, c);
  return choices;
}

// "-q, --quiet", "--[no-]final-norm", "--layers N"
std::string left_column(const Flag& flag) {
  std::string text = flag.short_name.empty() ? flag.name : flag.short_name + ", " + flag.name;
  if (!flag.negation.empty()) text = "--[no-]" + flag.key();
  return flag.values.empty() ? text : text + " " + (has_many_choices(flag) ? "NAME" : flag.values);
}

std::string right_column(const Flag& flag) {
  std::string text = flag.default_value.empty() ? flag.help : fmt::format("{} ({})", flag.help, flag.default_value);
  return has_many_choices(flag) ? text + "\n" + choices_of(flag) : text;
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
         style.bold("Commands") + "\n" + two_columns(rows, width) +
         "\n`jnorm COMMAND --help` lists a command's options; `jnorm --version` says what this build is made of.\n";
}

std::string command_help(const Command& command, const Flags& flags, const Style& style) {
  constexpr std::size_t widest = 26;
  std::size_t width = 0;
  std::vector<std::string> groups;
  for (const Flag& flag : flags.all()) {
    const std::size_t left = left_column(flag).size();
    if (left <= widest) width = std::max(width, left);
    if (std::find(groups.begin(), groups.end(), flag.group) == groups.end()) groups.push_back(flag.group);
  }
  std::string text = fmt::format("{}: {}\n\n{} {}\n", style.bold("jnorm " + command.name()), command.summary(),
                                 style.bold("usage:"), usage(command, flags));
  if (!command.details().empty()) text += "\n" + paragraph(command.details());
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
