#pragma once

// Private to the library's sources: how the list of settings is written down, and the parts of it.

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <jnorm/layers/names.hpp>
#include <jnorm/layers/parse_number.hpp>
#include <jnorm/layers/run_settings.hpp>

namespace jnorm {

inline bool parse_truth(const std::string& name, const std::string& text) {
  expect(text == "true" || text == "false", "{}: expected true or false, got {}", name, in_quotes(text));
  return text == "true";
}

// The settings of one group. `at` gives the place in a run: [](auto& run) -> auto& { return run.training.steps; }.
class Settings {
 public:
  Settings(RunSetting::Group group, std::string heading) : group_(group), heading_(std::move(heading)) {}

  // What is added from here on stands under this one.
  void heading(std::string heading) { heading_ = std::move(heading); }

  template <class At>
  RunSetting& number(std::string name, std::string help, At at) {
    using Number = std::decay_t<decltype(at(std::declval<RunConfig&>()))>;
    RunSetting& setting = append(name, std::move(help));
    setting.get = [at](const RunConfig& run) { return fmt::format("{}", at(run)); };
    setting.set = [at, name](RunConfig& run, const std::string& text) { at(run) = parse_number<Number>(name, text); };
    return setting;
  }

  template <class At>
  RunSetting& text(std::string name, std::string help, At at) {
    RunSetting& setting = append(std::move(name), std::move(help));
    setting.quoted = true;
    setting.get = at;
    setting.set = [at](RunConfig& run, const std::string& text) { at(run) = text; };
    return setting;
  }

  // One of several values, each of which is called what to_string calls it.
  template <class Value, class At>
  RunSetting& choice(std::string name, std::string help, std::vector<Value> values, At at) {
    std::vector<std::string> names;
    for (const Value& value : values) names.push_back(to_string(value));
    RunSetting& setting = append(name, std::move(help));
    setting.choices = names;
    setting.quoted = true;
    setting.get = [at](const RunConfig& run) { return to_string(at(run)); };
    setting.set = [at, name, names, values](RunConfig& run, const std::string& word) {
      const auto found = std::find(names.begin(), names.end(), word);
      if (found == names.end()) fail_unknown_name(name.c_str(), word, names);
      at(run) = values[static_cast<std::size_t>(found - names.begin())];
    };
    return setting;
  }

  template <class At>
  RunSetting& truth(std::string name, std::string help, At at) {
    RunSetting& setting = append(name, std::move(help));
    setting.choices = {"true", "false"};
    setting.get = [at](const RunConfig& run) { return at(run) ? "true" : "false"; };
    setting.set = [at, name](RunConfig& run, const std::string& word) { at(run) = parse_truth(name, word); };
    return setting;
  }

  // One that may be left to the rest of the configuration: written as it turned out.
  template <class At>
  RunSetting& resolved_truth(std::string name, std::string help, At at, bool (*resolve)(const RunConfig&)) {
    RunSetting& setting = append(name, std::move(help));
    setting.choices = {"true", "false"};
    setting.get = [resolve](const RunConfig& run) { return resolve(run) ? "true" : "false"; };
    setting.set = [at, name](RunConfig& run, const std::string& word) { at(run) = parse_truth(name, word); };
    return setting;
  }

  // A number or, where it is left away, nothing.
  template <class At>
  RunSetting& optional_number(std::string name, std::string help, At at) {
    RunSetting& setting = append(name, std::move(help));
    setting.get = [at](const RunConfig& run) { return at(run) ? fmt::format("{}", *at(run)) : ""; };
    setting.set = [at, name](RunConfig& run, const std::string& text) {
      if (text.empty()) {
        at(run).reset();
      } else {
        at(run) = parse_number<double>(name, text);
      }
    };
    return setting;
  }

  RunSetting& append(std::string name, std::string help) {
    RunSetting setting;
    setting.name = std::move(name);
    setting.help = std::move(help);
    setting.group = group_;
    setting.heading = heading_;
    return all_.emplace_back(std::move(setting));
  }

  std::vector<RunSetting> all() { return std::move(all_); }

 private:
  RunSetting::Group group_;
  std::string heading_;
  std::vector<RunSetting> all_;
};

std::vector<RunSetting> model_settings();
std::vector<RunSetting> data_settings();
std::vector<RunSetting> training_settings();

}  // namespace jnorm
