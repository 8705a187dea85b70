#include "config_file.hpp"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/Config.hpp>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/files.hpp>

namespace jnorm {

namespace {

// Up to a # that stands in no string.
std::string without_comment(const std::string& line) {
  char quote = '\0';
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quote == '\0' && line[i] == '#') return line.substr(0, i);
    if (line[i] == quote) {
      quote = '\0';
    } else if (quote == '\0' && (line[i] == '"' || line[i] == '\'')) {
      quote = line[i];
    }
  }
  return line;
}

std::string trimmed(const std::string& text) {
  constexpr const char* space = " \t\r";
  const std::size_t first = text.find_first_not_of(space);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(space) + 1 - first);
}

// CLI11 reads one line at a time here: over a whole file it would skip what it doesn't understand.
Setting read_line(const std::string& line) {
  const std::size_t equals = line.find('=');
  expect(equals != std::string::npos, "expected key = value, got {}", in_quotes(line));
  const std::string value = trimmed(line.substr(equals + 1));
  expect(!value.empty(), "expected a value after {}", in_quotes(line));
  expect(value.front() != '"' || value.find('\\') == std::string::npos,
         "in a text with a backslash use single quotes, got {}", in_quotes(line));
  const bool is_text = value.front() == '"' || value.front() == '\'';
  expect(!is_text || (value.size() > 1 && value.back() == value.front()), "a text must end with its quote, got {}",
         in_quotes(line));
  expect(value.front() != '[' || value.back() == ']', "a list must end on the line where it begins, got {}",
         in_quotes(line));

  CLI::ConfigTOML reader;
  reader.comment('\0');  // comments are gone already, and a # in a string is none
  std::istringstream input(line);
  const std::vector<CLI::ConfigItem> items = reader.from_config(input);
  expect(items.size() == 1 && items[0].parents.empty() && !items[0].name.empty(), "expected key = value, got {}",
         in_quotes(line));
  expect(items[0].inputs.size() == 1 || value.front() == '[', "a text of several words needs quotes, got {}",
         in_quotes(line));
  std::string key = items[0].name;
  std::replace(key.begin(), key.end(), '_', '-');
  return {.key = key, .value = fmt::format("{}", fmt::join(items[0].inputs, ",")), .line = 0};
}

}  // namespace

std::vector<Setting> read_config_file(const std::string& path) {
  std::vector<Setting> settings;
  std::istringstream text(read_file(path));
  std::string raw;
  for (int number = 1; std::getline(text, raw); ++number) {
    const std::string line = trimmed(without_comment(raw));
    if (line.empty()) continue;
    try {
      expect(line.front() != '[', "sections such as {} aren't used; write key = value", line);
      Setting setting = read_line(line);
      setting.line = number;
      const auto earlier = std::find_if(settings.begin(), settings.end(),
                                        [&](const Setting& other) { return other.key == setting.key; });
      expect(earlier == settings.end(), "{} stands on line {} already", setting.key,
             earlier == settings.end() ? 0 : earlier->line);
      settings.push_back(std::move(setting));
    } catch (const Error& error) {
      fail(ErrorKind::file, "'{}', line {}: {}", path, number, error.what());
    }
  }
  return settings;
}

}  // namespace jnorm
