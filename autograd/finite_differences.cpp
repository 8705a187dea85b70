#include <jnorm/autograd/finite_differences.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <jnorm/autograd/tape.hpp>
#include <jnorm/core/expect.hpp>
#include <jnorm/core/operations.hpp>

namespace jnorm {

namespace {

constexpr double kLargestStep = 0.1;
constexpr double kSmallestStep = 1e-7;

double five_point(const std::function<double(double)>& f, double h) {
  return (8.0 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12.0 * h);  // [FD.1]
}

// Two steps may agree by chance. But rounding grows tenfold from a step to the next, so that what any smaller steps
// disagree by tells of the rounding here.
void find_foot(DifferenceSweep& sweep) {
  sweep.error = std::numeric_limits<double>::infinity();
  double rounding = 0.0;
  for (std::size_t k = sweep.steps.size() - 1; k-- > 0;) {
    const double error = std::max(sweep.steps[k].disagreement, rounding);
    rounding = error / 10.0;
    if (k + 2 == sweep.steps.size() || !(error <= sweep.error)) continue;  // nothing tells of the last one's rounding
    sweep.error = error;
    sweep.best = k;
  }
}

}  // namespace

DifferenceSweep sweep_steps(const std::function<double(double)>& f, double scale) {
  if (scale == 0.0) scale = 1.0;
  const double smallest = kSmallestStep * std::min(1.0, scale);
  DifferenceSweep sweep;
  for (double h = kLargestStep * std::max(1.0, scale); h > 0.9 * smallest; h /= 10.0) {
    sweep.steps.push_back({.step = h, .value = five_point(f, h), .disagreement = std::nan("")});
  }
  for (std::size_t k = 0; k + 1 < sweep.steps.size(); ++k) {
    sweep.steps[k].disagreement = std::fabs(sweep.steps[k].value - sweep.steps[k + 1].value);
  }
  find_foot(sweep);
  return sweep;
}

std::string to_string(const DifferenceSweep& sweep) {
  std::string text = fmt::format("{:>10}  {:>22}  {}", "step", "difference", "next step differs by");
  for (std::size_t k = 0; k < sweep.steps.size(); ++k) {
    const DifferenceStep& step = sweep.steps[k];
    text += fmt::format("\n{:>10.1e}  {:>22.15g}", step.step, step.value);
    if (k + 1 < sweep.steps.size()) text += fmt::format("  {:.1e}", step.disagreement);
    if (k == sweep.best && std::isfinite(sweep.error)) text += "  <- best";
  }
  return text;
}

LocalSlope local_slope(const std::function<double(double)>& f, double at_zero, double step, double least_jump) {
  const double after = f(step), before = f(-step), far_after = f(2 * step), far_before = f(-2 * step);
  // What bends the graph: h^2 f'' where f is smooth, so four times as much at 2h; at a kink h times the jump of the
  // slope, so twice as much.
  const double bend = after - 2.0 * at_zero + before;
  const double far_bend = far_after - 2.0 * at_zero + far_before;
  const bool linear = std::fabs(far_bend - 2.0 * bend) < 1e-2 * std::fabs(bend);
  return {.central = (8.0 * (after - before) - (far_after - far_before)) / (12.0 * step),
          .left = (at_zero - before) / step,
          .right = (after - at_zero) / step,
          .kink = linear && std::fabs(bend) > least_jump * step};
}

WeightedFunction::WeightedFunction(const DifferentiableFunction& function, std::vector<Tensor> inputs, Tensor cotangent)
    : function_(function), inputs_(std::move(inputs)), cotangent_(std::move(cotangent)) {}

Tensor WeightedFunction::output() {
  Tape tape;
  tape.set_measuring(true);
  std::vector<Var> xs;
  for (const Tensor& input : inputs_) xs.push_back(tape.variable(input));
  return function_(xs).value();
}

double WeightedFunction::at_inputs() { return dot(output(), cotangent_); }

double WeightedFunction::along(std::size_t i, const Tensor& direction, double t) {
  const Tensor centre = std::exchange(inputs_[i], add(inputs_[i], affine(direction, t, 0.0)));
  const double result = dot(output(), cotangent_);
  inputs_[i] = centre;
  return result;
}

Tensor WeightedFunction::output_at_element(std::size_t i, Index element, double t) {
  const double centre = inputs_[i].data<double>()[element];
  inputs_[i].mutable_data<double>()[element] = centre + t;
  Tensor result = output();
  inputs_[i].mutable_data<double>()[element] = centre;
  return result;
}

double WeightedFunction::at_element(std::size_t i, Index element, double t) {
  return dot(output_at_element(i, element, t), cotangent_);
}

Tensor WeightedFunction::jacobian_column(std::size_t i, Index element, double step) {
  const auto at = [&](double t) { return output_at_element(i, element, t); };
  const Tensor near = subtract(at(step), at(-step));
  const Tensor far = subtract(at(2 * step), at(-2 * step));
  return affine(subtract(affine(near, 8.0, 0.0), far), 1.0 / (12.0 * step), 0.0);  // [FD.1]
}

}  // namespace jnorm
