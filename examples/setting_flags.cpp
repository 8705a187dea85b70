#include "setting_flags.hpp"

namespace jnorm {

namespace {

std::string title(RunSetting::Group group) {
  switch (group) {
    case RunSetting::Group::model: return "model";
    case RunSetting::Group::data: return "data";
    case RunSetting::Group::training: return "training";
  }
  return "";
}

}  // namespace

void add_setting_flags(Flags& flags, RunConfig& config, RunSetting::Group group) {
  flags.group(title(group));
  for (const RunSetting& setting : run_settings()) {
    if (setting.group != group || setting.name == "seed" || setting.name == "dtype") continue;
    Flag& flag = flags.setting(setting, config);
    // Not the width that 0 stands for: it follows from another option.
    if (setting.name == "ffn") flag.default_value = std::to_string(config.model.ffn);
  }
}

void apply_common_settings(RunConfig& config, const Session& session) {
  if (session.given("--seed")) config.training.seed = session.common().seed;
  config.model.dtype = session.dtype_or(config.model.dtype);
}

}  // namespace jnorm
