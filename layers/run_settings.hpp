#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <jnorm/layers/run_config.hpp>

namespace jnorm {

// One setting of a run by its name: a flag --name of the program, a line of config.toml, an entry of a checkpoint's
// metadata. The list of them is the only place that knows the names. The model's vocabulary is none: the data decide
// it.
struct RunSetting {
  enum class Group { model, data, training };

  std::string name;  // "learning-rate"
  std::string help;  // one line
  Group group = Group::model;
  std::string heading;               // what it stands under in a list
  std::vector<std::string> choices;  // of a setting that has only a few values
  bool quoted = false;               // its value is a text, and not a number, true or false
  // Whether a file may lack it, and means its default by that. Every setting that is added to the list later may be
  // left out, so that earlier runs stay readable; so its default must be what runs did before there was the setting.
  bool may_be_left_out = false;
  bool comes_first = false;  // setting it sets others too, so it must be set before them
  std::function<std::string(const RunConfig&)> get;
  // Throws Error(argument): steps: expected a whole number, got "x"
  std::function<void(RunConfig&, const std::string&)> set;
};

const std::vector<RunSetting>& run_settings();
// Those of a model that may change when training goes on with its weights: they are the same model's without training.
const std::vector<const RunSetting*>& training_choices();
// Throws Error(argument) if there is none of this name: no setting "stpes"; did you mean steps?
const RunSetting& run_setting(std::string_view name);

}  // namespace jnorm
