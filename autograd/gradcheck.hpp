#pragma once

// Checks of hand-written derivatives by independent witnesses.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <jnorm/autograd/ops.hpp>

namespace jnorm {

// A function of recorded values, as gradient checks see it.
using DifferentiableFunction = std::function<Var(std::span<const Var>)>;

struct GradientCheckOptions {
  std::uint64_t seed = 1;  // of the random cotangent and tangents
  // 1 checks the derivative; 2 and 3 also the derivatives of the derivative, recorded and checked the same way.
  int order = 1;
  // Of the error relative to the largest element of the gradient. The differences are of fourth order in float64: their
  // own error is about 1e-12 where the function is smooth and of size 1.
  double difference_tolerance = 1e-8;
  // Of two ways to compute the same number in float64.
  double exact_tolerance = 1e-11;
};

// One witness's verdict at one order.
struct GradientWitness {
  std::string name;  // "central differences", "adjoint", "composed", "closed form"
  int order = 1;
  double error = 0.0;  // the worst, relative
  double tolerance = 0.0;
  std::string worst;                                    // where: "input 0 at [1, 2]: vjp 0.25, central differences 0.5"
  bool holds() const { return error <= tolerance; }     // false for NaN
  bool worse_than(const GradientWitness& other) const;  // a NaN is worse than any number
};

struct GradientReport {
  std::vector<GradientWitness> witnesses;
  bool passed() const;
  double worst_error() const;
};
std::string to_string(const GradientReport& report);  // one line a witness

// Checks function's derivative at the inputs, converted to float64, under a random cotangent (a plain sum would hide
// the faults of norms, whose outputs sum to a constant):
//   central differences  <u, f(x)> differentiated numerically, against the vjp
//   adjoint              <u, J v> = <J^T u, v> for random tangents v: the jvp against the vjp
//   composed             the vjp of the operation's composition from primitives, if its last operation has one
// Errors in the inputs or the function propagate.
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
