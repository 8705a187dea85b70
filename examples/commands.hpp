#pragma once

#include <memory>

#include "cli.hpp"

namespace jnorm {

// The commands, each from the file of its name.
std::unique_ptr<Command> check_command();
std::unique_ptr<Command> demo_command();
std::unique_ptr<Command> graph_command();
std::unique_ptr<Command> info_command();
std::unique_ptr<Command> lesson_command();
std::unique_ptr<Command> probe_command();
std::unique_ptr<Command> sample_command();
std::unique_ptr<Command> train_command();

}  // namespace jnorm
