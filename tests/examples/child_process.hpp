#pragma once

// Runs code, or the jnorm program, in a child process and catches what it prints and returns.

#include <fcntl.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

struct Finished {
  int exit_code;  // of a process that a signal ended: 128 + its number
  std::string out;
  std::string err;
};

namespace child_process {

inline std::string contents(std::FILE* file) {
  std::string text;
  std::rewind(file);
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

inline int exit_code_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

[[noreturn]] inline void become_jnorm(const std::vector<std::string>& arguments,
                                      const std::vector<std::string>& environment) {
  for (const std::string& setting : environment) putenv(const_cast<char*>(setting.c_str()));
  std::vector<char*> words = {const_cast<char*>("jnorm")};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  execv(JNORM_PROGRAM, words.data());
  std::perror(JNORM_PROGRAM);
  std::_Exit(127);
}

}  // namespace child_process

// `work` returns the exit code.
inline Finished run_in_child(const std::function<int()>& work) {
  std::FILE* const out = std::tmpfile();
  std::FILE* const err = std::tmpfile();
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(fileno(out), STDOUT_FILENO);
    dup2(fileno(err), STDERR_FILENO);
    const int code = work();
    std::fflush(nullptr);
    std::_Exit(code);
  }
  const int code = child_process::exit_code_of(child);
  return {code, child_process::contents(out), child_process::contents(err)};
}

// Settings of the environment are "NAME=value".
inline Finished run_jnorm(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {}) {
  return run_in_child([&]() -> int { child_process::become_jnorm(arguments, environment); });
}

// The same on a terminal, where both streams show; they come back as `out`.
inline Finished run_on_terminal(const std::function<int()>& work) {
  int terminal = -1;
  std::fflush(nullptr);
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child < 0) throw std::runtime_error("cannot make a terminal");
  if (child == 0) {
    setenv("TERM", "xterm", 1);
    const int code = work();
    std::fflush(nullptr);
    std::_Exit(code);
  }
  std::string shown;
  char buffer[4096];
  for (ssize_t got = read(terminal, buffer, sizeof buffer); got > 0; got = read(terminal, buffer, sizeof buffer)) {
    shown.append(buffer, static_cast<std::size_t>(got));
  }
  close(terminal);
  return {child_process::exit_code_of(child), shown, ""};
}

inline Finished run_jnorm_on_terminal(const std::vector<std::string>& arguments,
                                      const std::vector<std::string>& environment = {}) {
  return run_on_terminal([&]() -> int { child_process::become_jnorm(arguments, environment); });
}
