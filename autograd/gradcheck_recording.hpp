#pragma once

// Private to gradient checks: a function recorded where it is checked.

#include <string>
#include <vector>

#include <jnorm/autograd/finite_differences.hpp>
#include <jnorm/autograd/tape.hpp>
#include <jnorm/core/random.hpp>

namespace jnorm {

struct GradientRecording {
  Tape tape;
  std::vector<Tensor> inputs;  // float64
  std::vector<Var> xs;
  Var y;
  Tensor u;                        // a random cotangent of y
  std::vector<Tensor> gradients;   // of <u, y>; zeros where y doesn't depend on an input
  std::vector<std::string> names;  // of the inputs, for people: "input 1 (gamma)" where the last operation says so
  double magnitude = 0.0;          // of what <u, y> sums up
  std::vector<std::vector<Index>> kinks;  // of each input the elements that were found to sit on one

  // Throws Error(argument) on an output that isn't float64.
  GradientRecording(const DifferentiableFunction& function, std::vector<Tensor> at, Rng& rng);

  // J^T u of an output such as y; zeros where it doesn't depend on an input at all.
  std::vector<Tensor> pull_back(const Var& output, const Tensor& cotangent);
  bool on_kink(std::size_t i, Index element) const;
};

std::vector<Tensor> widened(const std::vector<Tensor>& inputs);
Tensor random_like(const Tensor& x, Rng& rng);
double largest_magnitude(const Tensor& x);  // of its elements that aren't NaN

// What makes a check at this point weaker than it looks: a loss, such as the plain sum over a norm's output, whose
// gradient vanishes whatever the formula.
std::vector<std::string> warnings_of(GradientRecording& recording, Rng& rng);

}  // namespace jnorm
