#pragma once

#include <string>
#include <string_view>

#include <jnorm/layers/run_config.hpp>

namespace jnorm {

// One line `name = value` a setting, in the order of the list; empty texts are left out.
std::string to_toml(const RunConfig& config);
// Reads what to_toml writes, in any order, comments and blank lines between. Throws Error(file) with `name_for_errors`
// and the line's number on a setting that is unknown, stands there twice or has a wrong value, and with the first name
// if some are missing that may not be left out.
RunConfig from_toml(std::string_view text, std::string_view name_for_errors);

}  // namespace jnorm
