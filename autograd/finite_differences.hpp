#pragma once

// Derivatives by central differences in float64, with an estimate of their own error.
//
//   [FD.1]  D(h) = (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / (12 h)
//   [FD.2]  D(h) - f'(0) = -h^4/30 f^(5)(0) + rounding of about epsilon |f| / h
//
// As the step h falls, the error first falls with h^4, then rises with 1/h: a V. Where two neighbouring steps agree
// best, the V has its foot, and what they differ by there says how far the difference itself can be trusted. A function
// that is too rough to be differentiated numerically has no foot: its differences don't settle.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <jnorm/autograd/var.hpp>
#include <jnorm/core/tensor.hpp>

namespace jnorm {

// A function of recorded values, as gradient checks see it.
using DifferentiableFunction = std::function<Var(std::span<const Var>)>;

struct DifferenceStep {
  double step;
  double value;         // D(step)
  double disagreement;  // |D(step) - D(step / 10)|; NaN for the smallest step
};

struct DifferenceSweep {
  std::vector<DifferenceStep> steps;  // ten times smaller from one to the next
  std::size_t best = 0;               // the foot of the V
  double error = 0.0;                 // of value(), absolute: about the disagreement there; infinite if there is none

  double step() const { return steps[best].step; }
  double value() const { return steps[best].value; }
};
std::string to_string(const DifferenceSweep& sweep);  // a table, a line a step, the best one marked

// The derivative at 0 of f(t), [FD.1] at steps from a tenth of the larger of 1 and `scale` to 1e-7 of the smaller one.
DifferenceSweep sweep_steps(const std::function<double(double)>& f, double scale);

// At one step: [FD.1] and the slopes on both sides. At a kink these differ whatever the step is.
struct LocalSlope {
  double central;
  double left;
  double right;
  bool kink;
};
// A difference between the slopes of less than `least_jump` is taken for rounding.
LocalSlope local_slope(const std::function<double(double)>& f, double at_zero, double step, double least_jump);

// <u, f(inputs)> around float64 inputs.
class WeightedFunction {
 public:
  WeightedFunction(const DifferentiableFunction& function, std::vector<Tensor> inputs, Tensor cotangent);

  double at_inputs();
  // Inputs[i] + t direction.
  double along(std::size_t i, const Tensor& direction, double t);
  // Inputs[i] with t added to one element.
  double at_element(std::size_t i, Index element, double t);
  // d f / d inputs[i][element] by [FD.1]: one column of the Jacobian, of f's shape.
  Tensor jacobian_column(std::size_t i, Index element, double step);

 private:
  Tensor output();
  Tensor output_at_element(std::size_t i, Index element, double t);

  const DifferentiableFunction& function_;
  std::vector<Tensor> inputs_;
  Tensor cotangent_;
};

}  // namespace jnorm
