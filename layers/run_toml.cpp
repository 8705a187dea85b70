#include <jnorm/layers/run_toml.hpp>

#include <algorithm>
#include <charconv>
#include <set>

#include <jnorm/core/expect.hpp>
#include <jnorm/layers/run_settings.hpp>

namespace jnorm {

namespace {

// A TOML string. Nothing is an escape between single quotes; what can't stand there goes between double ones.
std::string quoted(const std::string& text) {
  const auto is_plain = [](char c) { return c != '\'' && static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; };
  if (std::all_of(text.begin(), text.end(), is_plain)) return fmt::format("'{}'", text);
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string_view trimmed(std::string_view text) {
  constexpr const char* space = " \t\r";
  const std::size_t first = std::min(text.find_first_not_of(space), text.size());
  text.remove_prefix(first);
  return text.substr(0, text.find_last_not_of(space) + 1);
}

// Takes the character after a backslash, and the digits that belong to it, off the text.
char take_escape(std::string_view& text) {
  const char kind = text.empty() ? '\0' : text[0];
  text.remove_prefix(std::min<std::size_t>(1, text.size()));
  if (kind == '"' || kind == '\\') return kind;
  unsigned code = 0;
  const char* const begin = text.data();
  const bool numbered = kind == 'u' && text.size() >= 4 && std::from_chars(begin, begin + 4, code, 16).ptr == begin + 4;
  expect(numbered && code < 0x80, "expected \\\\, \\\" or \\u00.. after a backslash");
  text.remove_prefix(4);
  return static_cast<char>(code);
}

// Takes the value off the text: a string, or what stands before a blank or a comment.
std::string take_value(std::string_view& text) {
  if (text[0] != '"' && text[0] != '\'') {
    const std::size_t end = std::min(text.find_first_of(" \t#"), text.size());
    std::string value(text.substr(0, end));
    text.remove_prefix(end);
    return value;
  }
  const char quote = text[0];
  std::string value;
  for (text.remove_prefix(1); !text.empty();) {
    const char c = text[0];
    text.remove_prefix(1);
    if (c == quote) return value;
    value += c == '\\' && quote == '"' ? take_escape(text) : c;
  }
  fail(ErrorKind::argument, "expected {} at the end of the text", quote);
}

struct Line {
  const RunSetting* setting;
  std::string value;
};

struct NumberedLine {
  Line line;
  Index number;
};

Line parse_line(std::string_view line) {
  const std::size_t equals = line.find('=');
  expect(equals != std::string_view::npos, "expected name = value, got {}", in_quotes(line));
  const RunSetting& setting = run_setting(trimmed(line.substr(0, equals)));
  std::string_view rest = trimmed(line.substr(equals + 1));
  expect(!rest.empty(), "{}: expected a value, got none", setting.name);
  std::string value = take_value(rest);
  rest = trimmed(rest);
  expect(rest.empty() || rest[0] == '#', "{}: expected the end of the line, got {}", setting.name, in_quotes(rest));
  return {&setting, std::move(value)};
}

}  // namespace

std::string to_toml(const RunConfig& config) {
  std::string text;
  for (const RunSetting& setting : run_settings()) {
    const std::string value = setting.get(config);
    if (value.empty()) continue;
    text += fmt::format("{} = {}\n", setting.name, setting.quoted ? quoted(value) : value);
  }
  return text;
}

RunConfig from_toml(std::string_view text, std::string_view name_for_errors) {
  std::vector<NumberedLine> lines;
  std::set<std::string> seen;
  for (Index number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line[0] == '#') continue;
    try {
      lines.push_back({parse_line(line), number});
      const std::string& name = lines.back().line.setting->name;
      expect(seen.insert(name).second, "{} stands there twice", name);
    } catch (const Error& error) {
      fail(ErrorKind::file, "'{}', line {}: {}", name_for_errors, number, error.what());
    }
  }
  RunConfig config;
  std::stable_partition(lines.begin(), lines.end(), [](const auto& each) { return each.line.setting->comes_first; });
  for (const auto& [line, number] : lines) {
    try {
      line.setting->set(config, line.value);
    } catch (const Error& error) {
      fail(ErrorKind::file, "'{}', line {}: {}", name_for_errors, number, error.what());
    }
  }
  for (const RunSetting& setting : run_settings()) {
    if (setting.may_be_left_out || seen.contains(setting.name)) continue;
    fail(ErrorKind::file, "'{}': {} is missing", name_for_errors, setting.name);
  }
  return config;
}

}  // namespace jnorm
