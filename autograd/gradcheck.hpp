#pragma once

// Checks of hand-written derivatives by independent witnesses.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <jnorm/autograd/finite_differences.hpp>
#include <jnorm/autograd/gradcheck_verdict.hpp>
#include <jnorm/autograd/ops.hpp>

namespace jnorm {

struct GradientCheckOptions {
  std::uint64_t seed = 1;  // of the random cotangent and tangents
  // 1 checks the derivative; 2 and 3 also the derivatives of the derivative, recorded and checked the same way.
  int order = 1;
  // Errors are relative to the largest element of the gradient. What the central differences may differ by is ten times
  // the error that their own sweep over steps shows, but at least difference_floor. Where that would be more than
  // difference_cap, the function can't be checked numerically at these inputs, and the witness doesn't hold.
  double difference_floor = 1e-10;
  double difference_cap = 1e-6;
  // Of two ways to compute the same number in float64.
  double exact_tolerance = 1e-11;
};

// One witness's verdict at one order.
struct GradientWitness {
  std::string name;  // "central differences", "adjoint", "composed", "closed form"
  int order = 1;
  double error = 0.0;  // the worst, relative
  double tolerance = 0.0;
  std::string worst;  // where: "input 0 (x) at [1, 2]: vjp 0.25, central differences 0.5"
  // Of one that doesn't hold: what is wrong, where the numbers tell it, and the differences at the worst place.
  std::optional<GradientVerdict> verdict = {};
  std::optional<DifferenceSweep> sweep = {};

  bool holds() const { return error <= tolerance; }     // false for NaN
  bool worse_than(const GradientWitness& other) const;  // one that fails, then the larger error; NaN is the largest
};

struct GradientReport {
  std::vector<GradientWitness> witnesses;
  // What makes the check weaker than it looks: inputs at kinks, a loss whose gradient vanishes whatever the formula.
  std::vector<std::string> warnings = {};

  bool passed() const;
  double worst_error() const;
};
// A line a witness, below one that fails its verdict and its table of steps; then the warnings.
std::string to_string(const GradientReport& report);

// Checks function's derivative at the inputs, converted to float64, under a random cotangent (a plain sum would hide
// the faults of norms, whose outputs sum to a constant):
//   central differences  <u, f(x)> differentiated numerically, against the vjp
//   adjoint              <u, J v> = <J^T u, v> for random tangents v: the jvp against the vjp
//   composed             the vjp of the operation's composition from primitives, if its last operation has one
// An element that sits on a kink is compared with the slopes on both sides: any number between them will do.
// Throws Error(argument) on inputs that aren't finite floating-point tensors, and on a function that doesn't give
// float64 or gives something else the second time. Errors in the function propagate.
GradientReport check_gradients(const DifferentiableFunction& function, const std::vector<Tensor>& inputs,
                               const GradientCheckOptions& options = {});

// One more witness at first order: the vjp of inputs[0] under a random cotangent u against `other`(u).
GradientWitness compare_vjp(const DifferentiableFunction& function, const std::vector<Tensor>& inputs,
                            const std::string& name, const std::function<Tensor(const Tensor&)>& other,
                            const GradientCheckOptions& options = {});

// check_gradients for a custom operation, or anything else that is called with a Var.
template <class Operation>
requires(!std::is_convertible_v<Operation, DifferentiableFunction>) GradientReport
    check_gradients(const Operation& operation, const std::vector<Tensor>& inputs,
                    const GradientCheckOptions& options = {}) {
  const auto call = [&](std::span<const Var> xs) -> Var {
    if constexpr (requires { operation.apply(xs); }) {
      return operation.apply(xs);
    } else {
      return operation(xs[0]);
    }
  };
  return check_gradients(DifferentiableFunction(call), inputs, options);
}

}  // namespace jnorm
