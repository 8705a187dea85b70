#pragma once

#include <string>
#include <vector>

#include <jnorm/autograd/gradcheck.hpp>
#include <jnorm/autograd/norm_jacobian.hpp>

namespace jnorm {

// An operation with inputs at which its derivative is checked.
struct OperationCase {
  std::string operation;  // its name on the tape
  std::string variant;    // what is special: "[2, 3, 5]", "without beta"
  DifferentiableFunction function;
  std::vector<Tensor> inputs;  // float64; away from kinks and poles, so that differences make sense
  // Of a norm: d y / d inputs[0] as a formula, which shares no code with the tape. Empty for others.
  std::function<NormJacobian(std::span<const Tensor>)> closed_form = {};
};

// Every operation of the library: `jnorm check` and the tests run the witnesses over this list.
std::vector<OperationCase> operation_cases(std::uint64_t seed);

// check_gradients at the case's inputs, and for a norm the witness "closed form" as well.
GradientReport check_operation(const OperationCase& operation, const GradientCheckOptions& options = {});

}  // namespace jnorm
