#pragma once

// A right operation whose backward is spoiled on purpose, for tests of what finds such faults.

#include <functional>
#include <string>
#include <vector>

#include <jnorm/autograd/finite_differences.hpp>
#include <jnorm/autograd/sweep.hpp>
#include <jnorm/core/operations.hpp>

namespace jnorm {

// What a backward has to go on, and its right result.
struct RightBackward {
  std::vector<Tensor> inputs;
  Tensor y;
  Tensor dy;
  std::vector<Tensor> gradients;
  std::function<std::vector<Tensor>(const Tensor&)> pull_back;  // the right gradients for another cotangent
};
using Spoil = std::function<std::vector<Tensor>(const RightBackward&)>;

class SpoiledOperation final : public Operation {
 public:
  SpoiledOperation(const DifferentiableFunction* right, const Spoil* spoil, double jvp_factor)
      : right_(right), spoil_(spoil), jvp_factor_(jvp_factor) {}

  const Description& description() const override {
    static constexpr Description spoiled{.name = "spoiled", .inputs = "x", .formula = "", .saved_inputs = 0b111};
    return spoiled;
  }

  void vjp(Pullback& back) const override {
    Tape tape;
    std::vector<Var> xs;
    RightBackward state;
    for (std::size_t i = 0; back.has_input(i); ++i) {
      state.inputs.push_back(back.input(i));
      xs.push_back(tape.variable(back.input(i)));
    }
    const Var y = (*right_)(xs);
    state.y = y.value();
    state.dy = back.cotangent();
    state.pull_back = [&](const Tensor& dy) { return tape.gradients(y, xs, dy); };
    state.gradients = state.pull_back(state.dy);
    const std::vector<Tensor> spoiled = (*spoil_)(state);
    for (std::size_t i = 0; i < spoiled.size(); ++i) {
      if (back.wants(i)) back.give(i, spoiled[i]);
    }
  }

  void jvp(Pushforward& push) const override {
    Tape tape;
    std::vector<Var> xs;
    for (std::size_t i = 0; push.has_input(i); ++i) xs.push_back(tape.variable(push.input(i)));
    const Var y = (*right_)(xs);
    for (std::size_t i = 0; i < xs.size(); ++i) {
      if (push.has(i)) push.give(affine(tape.push_forward(y, xs[i], push.tangent(i)), jvp_factor_, 0.0));
    }
  }

 private:
  const DifferentiableFunction* right_;
  const Spoil* spoil_;
  double jvp_factor_;
};

// The function `right` as one operation with a spoiled backward (and its jvp times a factor). Both must outlive it.
inline DifferentiableFunction spoiled(const DifferentiableFunction& right, const Spoil& spoil,
                                      double jvp_factor = 1.0) {
  return [&right, &spoil, jvp_factor](std::span<const Var> xs) {
    Tape& tape = xs[0].tape();
    Tensor value = right(xs).value();
    return tape.record_node(tape.keep(SpoiledOperation(&right, &spoil, jvp_factor)), xs, std::move(value), {},
                            SourceLine::here());
  };
}

}  // namespace jnorm
