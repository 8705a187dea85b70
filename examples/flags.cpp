#include "flags.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <jnorm/core/expect.hpp>
#include <jnorm/layers/names.hpp>
#include <jnorm/layers/parse_number.hpp>

namespace jnorm {

namespace {

bool truth(const std::string& key, const std::string& text) {
  expect(text == "true" || text == "false", "{}: expected true or false, got {}", key, in_quotes(text));
  return text == "true";
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

// "1, 2.5,-3"
std::vector<double> parse_numbers(const std::string& key, const std::string& text) {
  std::vector<double> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    try {
      numbers.push_back(parse_number<double>(key, trimmed(text.substr(begin, end - begin))));
    } catch (const Error&) {
      fail(ErrorKind::argument, "{}: expected numbers separated by commas, got {}", key, in_quotes(text));
    }
    begin = end + 1;
  }
  return numbers;
}

}  // namespace

std::string Flag::key() const { return name.substr(std::min(name.find_first_not_of('-'), name.size())); }

Flag& Flags::append(Flag::Kind kind, std::string name, std::string values, std::string help,
                    std::string default_value) {
  flags_.push_back({.kind = kind,
                    .name = std::move(name),
                    .values = std::move(values),
                    .help = std::move(help),
                    .default_value = std::move(default_value),
                    .group = group_,
                    .short_name = "",
                    .negation = "",
                    .set = {}});
  return flags_.back();
}

Flag& Flags::add(std::string name, Index& target, std::string values, std::string help, std::optional<Index> least) {
  Flag& flag =
      append(Flag::Kind::option, std::move(name), std::move(values), std::move(help), fmt::format("{}", target));
  flag.set = [key = flag.key(), &target, least](const std::string& text) {
    const auto number = parse_number<Index>(key, text);
    expect(!least || number >= *least, "{}: expected at least {}, got {}", key, least.value_or(0), number);
    target = number;
  };
  return flag;
}

Flag& Flags::add(std::string name, std::uint64_t& target, std::string values, std::string help) {
  Flag& flag =
      append(Flag::Kind::option, std::move(name), std::move(values), std::move(help), fmt::format("{}", target));
  flag.set = [key = flag.key(), &target](const std::string& text) { target = parse_number<std::uint64_t>(key, text); };
  return flag;
}

Flag& Flags::add(std::string name, double& target, std::string values, std::string help) {
  Flag& flag =
      append(Flag::Kind::option, std::move(name), std::move(values), std::move(help), fmt::format("{}", target));
  flag.set = [key = flag.key(), &target](const std::string& text) { target = parse_number<double>(key, text); };
  return flag;
}

Flag& Flags::add(std::string name, std::string& target, std::string values, std::string help) {
  Flag& flag = append(Flag::Kind::option, std::move(name), std::move(values), std::move(help), target);
  flag.set = [key = flag.key(), &target](const std::string& text) {
    expect(!text.empty(), "{}: expected a value, got none", key);
    target = text;
  };
  return flag;
}

Flag& Flags::add(std::string name, std::vector<double>& target, std::string values, std::string help) {
  Flag& flag = append(Flag::Kind::option, std::move(name), std::move(values), std::move(help),
                      fmt::format("{}", fmt::join(target, ",")));
  flag.set = [key = flag.key(), &target](const std::string& text) { target = parse_numbers(key, text); };
  return flag;
}

Flag& Flags::choice(std::string name, std::string& target, std::vector<std::string> choices, std::string help) {
  Flag& flag = append(Flag::Kind::option, std::move(name), joined(choices, "|"), std::move(help), target);
  flag.set = [key = flag.key(), choices = std::move(choices), &target](const std::string& word) {
    target = choices[index_of_choice(key, word, choices)];
  };
  return flag;
}

Flag& Flags::toggle(std::string name, bool& target, std::string help) {
  Flag& flag = append(Flag::Kind::toggle, std::move(name), "", std::move(help), "");
  flag.set = [key = flag.key(), &target](const std::string& text) { target = truth(key, text); };
  return flag;
}

Flag& Flags::on_or_off(std::string name, bool& target, std::string help) {
  Flag& flag = toggle(std::move(name), target, std::move(help));
  flag.negation = fmt::format("--no-{}", flag.key());
  return flag;
}

Flag& Flags::setting(const RunSetting& setting, RunConfig& target) {
  const bool is_truth = setting.choices == std::vector<std::string>{"true", "false"};
  const std::string values = setting.choices.empty() ? (setting.quoted ? "TEXT" : "N") : joined(setting.choices, "|");
  Flag& flag = is_truth ? append(Flag::Kind::toggle, "--" + setting.name, "", setting.help, "")
                        : append(Flag::Kind::option, "--" + setting.name, values, setting.help, setting.get(target));
  if (is_truth) flag.negation = fmt::format("--no-{}", setting.name);
  flag.comes_first = setting.comes_first;
  flag.set = [&setting, &target](const std::string& text) { setting.set(target, text); };
  return flag;
}

Flag& Flags::positional(std::string name, std::string& target, std::string help) {
  Flag& flag = append(Flag::Kind::positional, std::move(name), "", std::move(help), target);
  flag.set = [&target](const std::string& text) { target = text; };
  return flag;
}

bool Flags::given(std::string_view name) const {
  for (const Flag& flag : flags_) {
    if (flag.name == name) return flag.given;
  }
  return false;
}

Flag* Flags::find_key(std::string_view key) {
  for (Flag& flag : flags_) {
    if (flag.key() == key) return &flag;
  }
  return nullptr;
}

std::vector<std::string> Flags::names() const {
  std::vector<std::string> names;
  for (const Flag& flag : flags_) {
    if (flag.kind == Flag::Kind::positional) continue;
    names.push_back(flag.name);
    if (!flag.negation.empty()) names.push_back(flag.negation);
  }
  return names;
}

std::vector<std::string> Flags::keys() const {
  std::vector<std::string> keys;
  for (const Flag& flag : flags_) keys.push_back(flag.key());
  return keys;
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  return fmt::format("{}", fmt::join(words, between));
}

std::size_t index_of_choice(const std::string& key, const std::string& word, const std::vector<std::string>& choices) {
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (choices[i] == word) return i;
  }
  fail_unknown_name(key.c_str(), word, choices);
}

}  // namespace jnorm
