#include "setting_flags.hpp"

#include <algorithm>

#include <jnorm/core/expect.hpp>

namespace jnorm {

void add_setting_flags(Flags& flags, RunConfig& config, RunSetting::Group group) {
  for (const RunSetting& setting : run_settings()) {
    if (setting.group != group || setting.name == "seed" || setting.name == "dtype") continue;
    flags.group(setting.heading);
    Flag& flag = flags.setting(setting, config);
    // Not the width that 0 stands for: it follows from another option.
    if (setting.name == "ffn") flag.default_value = std::to_string(config.model.ffn);
  }
}

bool given_group(const Session& session, RunSetting::Group group) {
  const std::vector<RunSetting>& all = run_settings();
  return std::any_of(all.begin(), all.end(), [&](const RunSetting& setting) {
    return setting.group == group && session.given("--" + setting.name);
  });
}

void expect_not_given(const Session& session, RunSetting::Group group, const std::string& from) {
  for (const RunSetting& setting : run_settings()) {
    expect(setting.group != group || !session.given("--" + setting.name),
           "--{}: the model comes from {} with its own settings; leave it away", setting.name, from);
  }
}

void apply_common_settings(RunConfig& config, const Session& session) {
  if (session.given("--seed")) config.training.seed = session.common().seed;
  config.model.dtype = session.dtype_or(config.model.dtype);
}

}  // namespace jnorm
