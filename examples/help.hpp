#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli.hpp"

namespace jnorm {

// What `jnorm --help` and `jnorm COMMAND --help` print.
std::string program_help(const std::vector<std::unique_ptr<Command>>& commands, const Style& style);
std::string command_help(const Command& command, const Flags& flags, const Style& style);

}  // namespace jnorm
