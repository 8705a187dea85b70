#pragma once

// The options of a command: what they are called, what they set, and what the help says of them. The command line and a
// configuration file set them through the same code, so both accept and refuse the same values in the same words.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <jnorm/core/shape.hpp>
#include <jnorm/layers/run_settings.hpp>

namespace jnorm {

struct Flag {
  enum class Kind { option, toggle, positional };

  Kind kind;
  std::string name;                             // "--placement"; of a positional argument "name"
  std::string values;                           // what may stand after it, for the help: "pre|post", "N"
  std::string help;                             // one line
  std::string default_value;                    // as it would be typed; empty if there is none to tell
  std::string group;                            // the heading it stands under in the help
  std::string short_name;                       // "-q", or empty
  std::string negation;                         // of a toggle that is on unless told otherwise: "--no-final-norm"
  std::function<void(const std::string&)> set;  // throws Error(argument): "placement: expected ..., got ..."
  bool comes_first = false;                     // it sets others too, which are set after it
  bool given = false;                           // on the command line or in a configuration file

  std::string key() const;  // the name without dashes, as a configuration file spells it
};

class Flags {
 public:
  // Options that are added from here on stand under this heading in the help.
  void group(std::string title) { group_ = std::move(title); }

  // Options with a value. What the target holds now is the default that the help shows. `name` is "--width".
  Flag& add(std::string name, Index& target, std::string values, std::string help,
            std::optional<Index> least = std::nullopt);
  Flag& add(std::string name, std::uint64_t& target, std::string values, std::string help);
  Flag& add(std::string name, double& target, std::string values, std::string help);
  Flag& add(std::string name, std::string& target, std::string values, std::string help);
  Flag& add(std::string name, std::vector<double>& target, std::string values, std::string help);  // "1,2.5,-3"
  // One of several values, which are called what to_string calls them.
  template <class Choice>
  Flag& choice(std::string name, Choice& target, const std::vector<Choice>& choices, std::string help);
  Flag& choice(std::string name, std::string& target, std::vector<std::string> choices, std::string help);

  // An option without a value that turns something on.
  Flag& toggle(std::string name, bool& target, std::string help);
  // The two options --name and --no-name.
  Flag& on_or_off(std::string name, bool& target, std::string help);

  // A setting of a run as the option --name: with a value, or, of true and false, as --name and --no-name.
  Flag& setting(const RunSetting& setting, RunConfig& target);

  // An argument that is recognized by its place.
  Flag& positional(std::string name, std::string& target, std::string help);

  bool given(std::string_view name) const;  // the name with its dashes
  const std::vector<Flag>& all() const { return flags_; }
  std::vector<Flag>& all() { return flags_; }
  Flag* find_key(std::string_view key);  // by a configuration file's spelling; nullptr if there is none
  std::vector<std::string> names() const;
  std::vector<std::string> keys() const;

 private:
  Flag& append(Flag::Kind kind, std::string name, std::string values, std::string help, std::string default_value);

  std::vector<Flag> flags_;
  std::string group_;
};

std::string joined(const std::vector<std::string>& words, std::string_view between);

// The index of the word among the choices, or Error(argument) as Flag::set throws it.
std::size_t index_of_choice(const std::string& key, const std::string& word, const std::vector<std::string>& choices);

template <class Choice>
Flag& Flags::choice(std::string name, Choice& target, const std::vector<Choice>& choices, std::string help) {
  std::vector<std::string> words;
  for (const Choice& one : choices) words.push_back(to_string(one));
  Flag& flag = append(Flag::Kind::option, std::move(name), joined(words, "|"), std::move(help), to_string(target));
  flag.set = [key = flag.key(), words, choices, &target](const std::string& word) {
    target = choices[index_of_choice(key, word, words)];
  };
  return flag;
}

}  // namespace jnorm
