#pragma once

// What is wrong with a gradient, where that can be told from the numbers.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <jnorm/core/tensor.hpp>

namespace jnorm {

enum class GradientFault {
  non_finite,         // a NaN or infinity where the right gradient has none
  zero,               // nothing arrives
  cotangent_ignored,  // the same for every cotangent
  swapped,            // another input's gradient
  factor,             // a constant times the right one: -1, 2, 1/2, N, ...
  transposed,         // the right one's transpose, or J u instead of J^T u
  missing_sum,        // one slice's share, where a sum over all slices belongs
  reduced_too_much,   // a sum or mean over an axis, where each element has its own
  operand_left_out,   // another input, as a norm's gamma, isn't multiplied in where it belongs
  term_dropped,       // the residual is one simple term
  float32_noise,      // right to 7 digits: something rounds to float32
  wrong_jvp,          // the vjp is right and its jvp isn't
  wrong_composition,  // the vjp is right and the composed definition is another function
};
std::string to_string(GradientFault fault);  // "factor"

struct GradientVerdict {
  GradientFault fault;
  std::size_t input;     // whose gradient
  std::string sentence;  // for people
};

// A wrong gradient and what it should have been.
struct GradientEvidence {
  std::size_t input = 0;           // whose gradient is to be explained
  std::vector<Tensor> inputs;      // where the function was differentiated
  std::vector<std::string> names;  // of the inputs: "input 1 (gamma)"
  Tensor output;
  Tensor cotangent;
  std::vector<Tensor> gradients;  // by the vjp
  // By differences: for each element of each input, d output / d element.
  std::vector<std::vector<Tensor>> jacobian_columns;
  double noise = 0.0;  // by how much an element may be off for the differences' sake
  // The vjp of the input in question for another cotangent.
  std::function<Tensor(const Tensor&)> vjp;
};

// The first fault that explains the whole residual, to a millionth of it; none where there is no such.
std::optional<GradientVerdict> explain(const GradientEvidence& evidence);

}  // namespace jnorm
