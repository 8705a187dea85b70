#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "examples/child_process.hpp"

// One line on standard error, nothing on standard output, exit code 2.
inline void check_refused(const std::vector<std::string>& arguments, const std::string& message) {
  const Finished run = run_jnorm(arguments);
  CHECK(run.err == "jnorm: " + message + "\n");
  CHECK(run.out == "");
  CHECK(run.exit_code == 2);
}
