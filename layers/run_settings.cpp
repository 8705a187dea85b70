#include <jnorm/layers/run_settings.hpp>

#include <jnorm/layers/setting_list.hpp>

namespace jnorm {

namespace {

std::vector<RunSetting> all_settings() {
  std::vector<RunSetting> all = model_settings();
  for (RunSetting& setting : data_settings()) all.push_back(std::move(setting));
  for (RunSetting& setting : training_settings()) all.push_back(std::move(setting));
  return all;
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const RunSetting& setting : run_settings()) names.push_back(setting.name);
  return names;
}

}  // namespace

const std::vector<RunSetting>& run_settings() {
  static const std::vector<RunSetting> settings = all_settings();
  return settings;
}

const std::vector<const RunSetting*>& training_choices() {
  static const std::vector<const RunSetting*> all{&run_setting("dropout"), &run_setting("precision"),
                                                  &run_setting("dtype")};
  return all;
}

const RunSetting& run_setting(std::string_view name) {
  for (const RunSetting& setting : run_settings()) {
    if (setting.name == name) return setting;
  }
  fail(ErrorKind::argument, "no setting {}{}", in_quotes(name), did_you_mean(name, setting_names()));
}

}  // namespace jnorm
