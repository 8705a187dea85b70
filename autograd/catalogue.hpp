#pragma once

#include <string>
#include <vector>

#include <jnorm/autograd/gradcheck.hpp>

namespace jnorm {

// An operation with inputs at which its derivative is checked.
struct OperationCase {
  std::string operation;  // its name on the tape
  std::string variant;    // what is special: "[2, 3, 5]", "without beta"
  DifferentiableFunction function;
  std::vector<Tensor> inputs;  // float64; away from kinks and poles, so that differences make sense
};

// Every operation of the library: `jnorm check` and the tests run the witnesses over this list.
std::vector<OperationCase> operation_cases(std::uint64_t seed);

}  // namespace jnorm
