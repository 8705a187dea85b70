// The jnorm program: one file for each command; cli.cpp is the frame around them.

#include <csignal>

#include "commands.hpp"

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond its limit is an error of writing, as a full disk is
  std::vector<std::unique_ptr<jnorm::Command>> commands;
  commands.push_back(jnorm::demo_command());
  commands.push_back(jnorm::train_command());
  commands.push_back(jnorm::sample_command());
  commands.push_back(jnorm::probe_command());
  commands.push_back(jnorm::graph_command());
  commands.push_back(jnorm::lesson_command());
  commands.push_back(jnorm::check_command());
  commands.push_back(jnorm::info_command());
  return jnorm::run_program(commands, argc, argv);
}
