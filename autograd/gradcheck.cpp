#include <jnorm/autograd/gradcheck.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <jnorm/autograd/gradcheck_differences.hpp>
#include <jnorm/autograd/gradcheck_recording.hpp>
#include <jnorm/core/expect.hpp>
#include <jnorm/core/random.hpp>

namespace jnorm {

namespace {

GradientWitness compare_adjoint(GradientRecording& recording, Rng& rng, int order, double tolerance) {
  WitnessComparison comparison("adjoint", order, tolerance);
  for (std::size_t i = 0; i < recording.xs.size(); ++i) {
    const Tensor v = random_like(recording.xs[i].value(), rng);
    const Tensor jv = recording.tape.push_forward(recording.y, recording.xs[i], v);
    const double forward = dot(recording.u, jv);
    const double reverse = dot(recording.gradients[i], v);
    const double scale = std::max(kSmallestGradientScale, norm(recording.u) * norm(jv));
    comparison.note(forward, reverse, scale, [&] {
      return fmt::format("{}: <u, J v> = {:.17g}, <J^T u, v> = {:.17g}", recording.names[i], forward, reverse);
    });
  }
  return comparison.result();
}

GradientWitness compare_with_composition(GradientRecording& recording, int order, double tolerance) {
  WitnessComparison comparison("composed", order, tolerance);
  Tape& tape = recording.tape;
  const Node& node = tape.node(recording.y.index());
  std::vector<Var> operands;
  for (std::size_t i = 0; i < node.input_count; ++i) operands.push_back(tape.var(node.inputs[i]));
  const Var y = node.operation->composed(operands);
  std::vector<Tensor> gradients = recording.pull_back(y, recording.u);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    // Either definition may take the slope that it likes there.
    for (const Index e : recording.kinks[i]) {
      gradients[i].mutable_data<double>()[e] = recording.gradients[i].data<double>()[e];
    }
    comparison.compare(recording.gradients[i], gradients[i], recording.names[i]);
  }
  return comparison.result();
}

// g(xs) = sum over i of <w_i, d <u, f> / d x_i>, recorded: its derivative is f's second one along w.
DifferentiableFunction gradient_of(const DifferentiableFunction& function, std::vector<Tensor> weights, Tensor u) {
  return [function, weights = std::move(weights), u = std::move(u)](std::span<const Var> xs) {
    Tape& tape = xs[0].tape();
    const Var y = function(xs);
    const std::vector<Var> gradients = tape.recorded_gradients(y, xs, tape.constant(u));
    Var total;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) continue;
      const Var term = sum(gradients[i] * weights[i]);
      total = total.defined() ? total + term : term;
    }
    return total.defined() ? total : tape.constant(zeros({}, DType::float64));  // f is linear: nothing is left
  };
}

// Where the differences agree with the vjp, the fault of another witness lies elsewhere.
void blame(GradientWitness& witness, GradientFault fault, const char* sentence, const GradientWitness& differences) {
  if (!witness.holds() && differences.holds()) witness.verdict = GradientVerdict{fault, 0, sentence};
}

void check_order(const DifferentiableFunction& function, const std::vector<Tensor>& inputs, int order,
                 const GradientCheckOptions& options, Rng& rng, GradientReport& report) {
  GradientRecording recording(function, inputs, rng);
  const GradientWitness differences =
      compare_with_differences(function, recording, rng, order, options, report.warnings);
  report.witnesses.push_back(differences);

  report.witnesses.push_back(compare_adjoint(recording, rng, order, options.exact_tolerance));
  blame(report.witnesses.back(), GradientFault::wrong_jvp, "the vjp agrees with the differences: the jvp is wrong",
        differences);
  const Operation* const operation = recording.tape.node(recording.y.index()).operation;
  if (order == 1 && operation != nullptr && operation->has_composition()) {
    report.witnesses.push_back(compare_with_composition(recording, order, options.exact_tolerance));
    blame(report.witnesses.back(), GradientFault::wrong_composition,
          "the vjp agrees with the differences: the composed definition is another function", differences);
  }
  if (order == 1) {
    for (std::string& warning : warnings_of(recording, rng)) report.warnings.push_back(std::move(warning));
  }
  if (order == options.order) return;
  std::vector<Tensor> weights;
  for (const Tensor& input : inputs) weights.push_back(random_like(input, rng));
  check_order(gradient_of(function, std::move(weights), recording.u), inputs, order + 1, options, rng, report);
}

void expect_inputs(const std::vector<Tensor>& inputs) {
  expect(!inputs.empty(), "check_gradients: it needs at least one input");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    expect(inputs[i].defined(), "check_gradients: input {} is undefined", i);
    expect(inputs[i].dtype() != DType::int32,
           "check_gradients: input {} is int32, which has no derivative; let the function capture it instead", i);
    const std::vector<double> values = inputs[i].values();
    const auto bad = std::find_if(values.begin(), values.end(), [](double value) { return !std::isfinite(value); });
    if (bad == values.end()) continue;
    fail(ErrorKind::argument, "check_gradients: input {} is {} at {}; differences need finite inputs", i, *bad,
         position_in(inputs[i].shape(), bad - values.begin()));
  }
}

std::string indented(const std::string& text) {
  std::string result = "  ";
  for (const char letter : text) {
    result += letter;
    if (letter == '\n') result += "  ";
  }
  return result;
}

}  // namespace

bool GradientReport::passed() const {
  return std::all_of(witnesses.begin(), witnesses.end(), [](const GradientWitness& w) { return w.holds(); });
}

bool GradientWitness::worse_than(const GradientWitness& other) const {
  if (holds() != other.holds()) return !holds();
  return std::isnan(error) ? !std::isnan(other.error) : error > other.error;
}

double GradientReport::worst_error() const {
  GradientWitness worst;
  for (const GradientWitness& witness : witnesses) {
    if (witness.worse_than(worst)) worst = witness;
  }
  return worst.error;
}

std::string to_string(const GradientReport& report) {
  std::string text;
  for (const GradientWitness& w : report.witnesses) {
    text += fmt::format("{}{} at order {}, {}: error {:.2g}, tolerance {:.2g}", text.empty() ? "" : "\n",
                        w.holds() ? "holds" : "FAILS", w.order, w.name, w.error, w.tolerance);
    if (w.holds()) continue;
    text += ": " + w.worst;
    if (w.verdict) text += "\n  verdict: " + w.verdict->sentence;
    if (w.sweep) text += "\n" + indented("differences there, in float64:\n" + to_string(*w.sweep));
  }
  for (const std::string& warning : report.warnings) text += "\nwarning: " + warning;
  return text;
}

GradientReport check_gradients(const DifferentiableFunction& function, const std::vector<Tensor>& inputs,
                               const GradientCheckOptions& options) {
  expect(options.order >= 1 && options.order <= 3, "check_gradients: order must be 1, 2 or 3, got {}", options.order);
  expect_inputs(inputs);
  Rng rng(options.seed);
  GradientReport report;
  check_order(function, widened(inputs), 1, options, rng, report);
  return report;
}

GradientWitness compare_vjp(const DifferentiableFunction& function, const std::vector<Tensor>& inputs,
                            const std::string& name, const std::function<Tensor(const Tensor&)>& other,
                            const GradientCheckOptions& options) {
  expect_inputs(inputs);
  Rng rng(options.seed);
  GradientRecording recording(function, widened(inputs), rng);
  WitnessComparison comparison(name, 1, options.exact_tolerance);
  comparison.compare(recording.gradients[0], other(recording.u), recording.names[0]);
  return comparison.result();
}

}  // namespace jnorm
