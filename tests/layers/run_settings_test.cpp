#include <jnorm/layers/run_settings.hpp>

#include <set>

#include <doctest/doctest.h>

using namespace jnorm;

TEST_CASE("run settings: every setting has a name of its own, and help") {
  std::set<std::string> names;
  for (const RunSetting& setting : run_settings()) {
    CHECK(names.insert(setting.name).second);
    CHECK_FALSE(setting.help.empty());
  }
}
