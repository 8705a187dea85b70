#pragma once

#include <string>
#include <vector>

namespace jnorm {

// A line "key = value" of a configuration file. The value is as one would type it on the command line: without quotes,
// a list joined by commas.
struct Setting {
  std::string key;
  std::string value;
  int line;
};

// The settings of a TOML file in their order: strings, numbers, true and false, and lists of these on one line. Keys
// may be written with - or _; they come back with -. Throws Error(file) naming path and line on anything else, a key
// that stands twice, or a file that can't be read.
std::vector<Setting> read_config_file(const std::string& path);

}  // namespace jnorm
