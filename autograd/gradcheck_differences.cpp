#include <jnorm/autograd/gradcheck_differences.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/operations.hpp>

namespace jnorm {

namespace {

// Of the differences' own error, since an element may fare worse than the random direction that was swept.
constexpr double kSafety = 10.0;

// A verdict reads the whole Jacobian, in numbers; larger ones aren't computed.
constexpr Index kLargestJacobian = 1 << 22;

// Median over the smaller steps of |D(h) - D(h/10)| h / magnitude: about the relative rounding error of the function.
double rounding_of(const DifferenceSweep& sweep, double magnitude) {
  std::vector<double> estimates;
  for (std::size_t k = sweep.steps.size() / 2; k + 1 < sweep.steps.size(); ++k) {
    estimates.push_back(sweep.steps[k].disagreement * sweep.steps[k + 1].step / magnitude);
  }
  std::sort(estimates.begin(), estimates.end());
  return estimates.empty() ? 0.0 : estimates[estimates.size() / 2];
}

class DifferenceCheck {
 public:
  DifferenceCheck(const DifferentiableFunction& function, GradientRecording& recording, Rng& rng, int order,
                  const GradientCheckOptions& options)
      : recording_(recording),
        rng_(rng),
        options_(options),
        weighted_(function, recording.inputs, recording.u),
        comparison_("central differences", order, options.difference_floor) {}

  GradientWitness run() {
    if (recording_.y.value().size() == 0) return comparison_.result();
    expect_the_same_again();
    for (std::size_t i = 0; i < recording_.inputs.size(); ++i) sweep_input(i);
    for (std::size_t i = 0; i < recording_.inputs.size(); ++i) compare_input(i);
    GradientWitness& witness = comparison_.result();
    if (!witness.holds()) explain_failure(witness);
    return witness;
  }

  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  const std::string& name(std::size_t i) const { return recording_.names[i]; }
  const Tensor& ours(std::size_t i) const { return recording_.gradients[i]; }

  void expect_the_same_again() {
    at_inputs_ = weighted_.at_inputs();
    const double recorded = dot(recording_.y.value(), recording_.u);
    expect(at_inputs_ == recorded || (std::isnan(at_inputs_) && std::isnan(recorded)),
           "check_gradients: the function gives another output when it is called again at the same inputs ({:.17g}, "
           "then {:.17g}, times the cotangent); let it start from the same random numbers each time",
           recorded, at_inputs_);
  }

  // What the differences' own error allows, from a sweep along a random direction.
  void sweep_input(std::size_t i) {
    const Tensor& x = recording_.inputs[i];
    if (x.size() == 0) {
      sweeps_.emplace_back();
      return;
    }
    const Tensor direction = random_like(x, rng_);
    sweeps_.push_back(sweep_steps([&](double t) { return weighted_.along(i, direction, t); }, largest_magnitude(x)));
    const double slope = std::fabs(sweeps_[i].value()) / norm(direction);
    const double scale =
        std::max({kSmallestGradientScale, largest_magnitude(ours(i)), std::isfinite(slope) ? slope : 0.0});
    const double needed = kSafety * sweeps_[i].error / scale;
    double& tolerance = comparison_.result().tolerance;
    tolerance = std::max(tolerance, std::min(needed, options_.difference_cap));
    if (needed <= options_.difference_cap) return;
    rough_.push_back(i);
    note_unsettled(needed, sweeps_[i], name(i) + " along a random direction");
  }

  void note_unsettled(double needed, const DifferenceSweep& sweep, const std::string& where) {
    const bool worst = comparison_.note(needed, 0.0, 1.0, [&] {
      return fmt::format(
          "{}: it can't be checked here: the differences don't settle at any step (they would allow an error of "
          "{:.1g})",
          where, needed);
    });
    if (!worst) return;
    worst_sweep_ = sweep;
    worst_settles_ = false;
  }

  void compare_input(std::size_t i) {
    if (std::find(rough_.begin(), rough_.end(), i) != rough_.end()) return;
    const Tensor& x = recording_.inputs[i];
    const std::vector<double> by_vjp = ours(i).values();
    std::vector<double> numeric;
    for (Index e = 0; e < x.size(); ++e) numeric.push_back(slope_at(i, e, by_vjp[static_cast<std::size_t>(e)]));
    if (!recording_.kinks[i].empty()) warn_of_kinks(i);
    const double scale = gradient_scale(ours(i), tensor(x.shape(), numeric, DType::float64));
    for (Index e = 0; e < x.size(); ++e) {
      compare_element(i, e, by_vjp[static_cast<std::size_t>(e)], numeric[static_cast<std::size_t>(e)], scale);
    }
  }

  // By differences; at a kink, what lies between the slopes on both sides and is nearest to the vjp.
  double slope_at(std::size_t i, Index e, double by_vjp) {
    const auto f = [&](double t) { return weighted_.at_element(i, e, t); };
    const LocalSlope slope = local_slope(f, at_inputs_, sweeps_[i].step(), least_jump(sweeps_[i].step()));
    if (!slope.kink) return slope.central;
    recording_.kinks[i].push_back(e);
    const double slack = 0.01 * std::fabs(slope.right - slope.left);  // one-sided slopes are off by h f'' / 2
    const auto [low, high] = std::minmax({slope.left, slope.right});
    return std::isnan(by_vjp) ? slope.central : std::clamp(by_vjp, low - slack, high + slack);
  }

  // What no rounding reaches: that of the values over the step, and that of the gradient.
  double least_jump(double step) const {
    constexpr double epsilon = std::numeric_limits<double>::epsilon();
    return std::max(1e4 * epsilon * recording_.magnitude / step, options_.difference_cap * kSmallestGradientScale);
  }

  void warn_of_kinks(std::size_t i) {
    const std::vector<Index>& kinks = recording_.kinks[i];
    warnings_.push_back(fmt::format(
        "{} sits on a kink at {}{}: the slopes on both sides differ there, and any number between them passes", name(i),
        position_in(recording_.inputs[i].shape(), kinks[0]),
        kinks.size() > 1 ? fmt::format(" and at {} more", kinks.size() - 1) : ""));
  }

  // An element that seems wrong at the input's step gets a sweep of its own, which decides.
  void compare_element(std::size_t i, Index e, double by_vjp, double numeric, double scale) {
    const Tensor& x = recording_.inputs[i];
    const std::string where = fmt::format("{} at {}", name(i), position_in(x.shape(), e));
    const bool near = std::fabs(by_vjp - numeric) <= comparison_.result().tolerance * scale;
    DifferenceSweep sweep;
    if (!near) {
      sweep = sweep_steps([&](double t) { return weighted_.at_element(i, e, t); }, largest_magnitude(x));
      const double needed = kSafety * sweep.error / scale;
      if (!(needed <= options_.difference_cap)) return note_unsettled(needed, sweep, where);
      if (!recording_.on_kink(i, e)) numeric = sweep.value();
    }
    const bool worst = comparison_.note(by_vjp, numeric, scale, [&] {
      return fmt::format("{}: vjp {:.9g}, central differences {:.9g}", where, by_vjp, numeric);
    });
    if (!worst) return;
    worst_input_ = i;
    worst_scale_ = scale;
    worst_sweep_ = std::move(sweep);
    worst_settles_ = true;
  }

  void explain_failure(GradientWitness& witness) {
    if (!worst_sweep_.steps.empty()) witness.sweep = worst_sweep_;
    witness.verdict = float32_inside();
    if (!witness.verdict && worst_settles_) witness.verdict = by_the_numbers();
  }

  // A function that computes in float32 on the way, from its tape or from how its differences scatter.
  std::optional<GradientVerdict> float32_inside() const {
    const Tape& tape = recording_.tape;
    for (NodeIndex n = 0; n <= recording_.y.index(); ++n) {
      const Node& node = tape.node(n);
      if (!node.needs_gradient || node.value.dtype() == DType::float64) continue;
      return GradientVerdict{
          GradientFault::float32_noise, worst_input_,
          fmt::format("{} computes in {} on the way from float64 to float64: differences need float64 "
                      "throughout",
                      tape.describe(n), to_string(node.value.dtype()))};
    }
    constexpr double least = 1e-10, most = 1e-5;  // of float32, 6e-8; float64 rounds at 1e-16
    if (rough_.empty()) return {};
    const double rounding = rounding_of(sweeps_[rough_[0]], recording_.magnitude);
    if (!(rounding > least && rounding < most)) return {};
    return GradientVerdict{GradientFault::float32_noise, rough_[0],
                           fmt::format("the function's value scatters by {:.0e} of itself, as float32 does: something "
                                       "rounds to float32; differences need float64 throughout",
                                       rounding)};
  }

  std::optional<GradientVerdict> by_the_numbers() {
    Index elements = 0;
    for (const Tensor& input : recording_.inputs) elements += input.size();
    if (elements * recording_.y.value().size() > kLargestJacobian) return {};
    GradientEvidence evidence{
        .input = worst_input_,
        .inputs = recording_.inputs,
        .names = recording_.names,
        .output = recording_.y.value(),
        .cotangent = recording_.u,
        .gradients = recording_.gradients,
        .jacobian_columns = {},
        .noise = comparison_.result().tolerance * worst_scale_,
        .vjp = [this](const Tensor& u) { return recording_.pull_back(recording_.y, u)[worst_input_]; }};
    for (std::size_t i = 0; i < recording_.inputs.size(); ++i) {
      std::vector<Tensor>& columns = evidence.jacobian_columns.emplace_back();
      for (Index e = 0; e < recording_.inputs[i].size(); ++e) {
        columns.push_back(weighted_.jacobian_column(i, e, sweeps_[i].step()));
      }
    }
    return explain(evidence);
  }

  GradientRecording& recording_;
  Rng& rng_;
  const GradientCheckOptions& options_;
  WeightedFunction weighted_;
  WitnessComparison comparison_;
  double at_inputs_ = 0.0;
  std::vector<DifferenceSweep> sweeps_;  // one an input
  std::vector<std::size_t> rough_;       // inputs along which the differences don't settle
  std::vector<std::string> warnings_;
  std::size_t worst_input_ = 0;
  double worst_scale_ = 0.0;
  bool worst_settles_ = false;
  DifferenceSweep worst_sweep_;
};

}  // namespace

std::string position_in(const Shape& shape, Index element) {
  std::vector<Index> indices(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    indices[static_cast<std::size_t>(axis)] = element % shape[axis];
    element /= shape[axis];
  }
  return fmt::format("[{}]", fmt::join(indices, ", "));
}

double gradient_scale(const Tensor& ours, const Tensor& theirs) {
  return std::max({kSmallestGradientScale, largest_magnitude(ours), largest_magnitude(theirs)});
}

void WitnessComparison::compare(const Tensor& ours, const Tensor& theirs, const std::string& input) {
  const std::vector<double> a = ours.values();
  const std::vector<double> b = theirs.values();
  const double scale = gradient_scale(ours, theirs);
  for (std::size_t e = 0; e < a.size(); ++e) {
    note(a[e], b[e], scale, [&] {
      return fmt::format("{} at {}: vjp {:.9g}, {} {:.9g}", input, position_in(ours.shape(), static_cast<Index>(e)),
                         a[e], witness_.name, b[e]);
    });
  }
}

GradientWitness compare_with_differences(const DifferentiableFunction& function, GradientRecording& recording, Rng& rng,
                                         int order, const GradientCheckOptions& options,
                                         std::vector<std::string>& warnings) {
  DifferenceCheck check(function, recording, rng, order, options);
  GradientWitness witness = check.run();
  warnings.insert(warnings.end(), check.warnings().begin(), check.warnings().end());
  return witness;
}

}  // namespace jnorm
