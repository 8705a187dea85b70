#include <jnorm/autograd/gradcheck.hpp>

#include <algorithm>
#include <cmath>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/random.hpp>

namespace jnorm {

namespace {

// A gradient is compared on the scale of its largest element, but not on a smaller one than this, a tenth of what a
// random cotangent has: where the true gradient vanishes, rounding is all there is.
constexpr double kSmallestScale = 0.1;

Tensor random_like(const Tensor& x, Rng& rng) { return randn(x.shape(), rng, DType::float64); }

std::vector<Tensor> widened(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> wide;
  for (const Tensor& input : inputs) wide.push_back(input.to(DType::float64));
  return wide;
}

std::vector<Var> record_inputs(Tape& tape, const std::vector<Tensor>& inputs) {
  std::vector<Var> xs;
  xs.reserve(inputs.size());
  for (const Tensor& input : inputs) xs.push_back(tape.variable(input));
  return xs;
}

// <u, f(inputs)> in float64.
double weighted_output(const DifferentiableFunction& function, const std::vector<Tensor>& inputs, const Tensor& u) {
  Tape tape;
  return dot(function(record_inputs(tape, inputs)).value(), u);
}

// d <u, f> / d inputs[i][e] by the five-point rule: error h^4/30 f^(5), plus rounding over h.
double central_difference(const DifferentiableFunction& function, std::vector<Tensor> inputs, std::size_t i, Index e,
                          const Tensor& u) {
  const double centre = inputs[i].data<double>()[e];
  const double h = 1e-3 * std::max(1.0, std::fabs(centre));
  const auto at = [&](double steps) {
    inputs[i].mutable_data<double>()[e] = centre + steps * h;
    return weighted_output(function, inputs, u);
  };
  return (8.0 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12.0 * h);
}

std::string position(const Shape& shape, Index element) {
  std::vector<Index> indices(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    indices[static_cast<std::size_t>(axis)] = element % shape[axis];
    element /= shape[axis];
  }
  return fmt::format("[{}]", fmt::join(indices, ", "));
}

// Takes pairs of numbers that should be equal and keeps the worst, relative to a scale.
class Comparison {
 public:
  explicit Comparison(GradientWitness witness) : witness_(std::move(witness)) {}

  void compare(const Tensor& ours, const Tensor& theirs, std::size_t input) {
    const std::vector<double> a = ours.values();
    const std::vector<double> b = theirs.values();
    double scale = kSmallestScale;
    for (std::size_t e = 0; e < a.size(); ++e) scale = std::max({scale, std::fabs(a[e]), std::fabs(b[e])});
    for (std::size_t e = 0; e < a.size(); ++e) {
      note(a[e], b[e], scale, [&] {
        return fmt::format("input {} at {}: vjp {:.9g}, {} {:.9g}", input,
                           position(ours.shape(), static_cast<Index>(e)), a[e], witness_.name, b[e]);
      });
    }
  }

  template <class Where>
  void note(double a, double b, double scale, const Where& where) {
    const double error = std::fabs(a - b) / scale;
    if (error > witness_.error || std::isnan(error)) {  // a NaN stays: nothing is larger
      witness_.error = error;
      witness_.worst = where();
    }
  }

  GradientWitness result() { return std::move(witness_); }

 private:
  GradientWitness witness_;
};

// Where a function stands: its recorded output, inputs, and the gradients of <u, output>.
struct Recording {
  Tape tape;
  std::vector<Var> xs;
  Var y;
  Tensor u;
  std::vector<Tensor> gradients;
};

GradientWitness compare_with_differences(const DifferentiableFunction& function, const std::vector<Tensor>& inputs,
                                         const Recording& recording, int order, double tolerance) {
  Comparison comparison(
      {.name = "central differences", .order = order, .error = 0.0, .tolerance = tolerance, .worst = ""});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor numeric = Tensor::uninitialized(inputs[i].shape(), DType::float64);
    for (Index e = 0; e < inputs[i].size(); ++e) {
      numeric.output_data<double>()[e] = central_difference(function, inputs, i, e, recording.u);
    }
    comparison.compare(recording.gradients[i], numeric, i);
  }
  return comparison.result();
}

GradientWitness compare_adjoint(Recording& recording, Rng& rng, int order, double tolerance) {
  Comparison comparison({.name = "adjoint", .order = order, .error = 0.0, .tolerance = tolerance, .worst = ""});
  for (std::size_t i = 0; i < recording.xs.size(); ++i) {
    const Tensor v = random_like(recording.xs[i].value(), rng);
    const Tensor jv = recording.tape.push_forward(recording.y, recording.xs[i], v);
    const double forward = dot(recording.u, jv);
    const double reverse = dot(recording.gradients[i], v);
    const double scale = std::max(kSmallestScale, norm(recording.u) * norm(jv));
    comparison.note(forward, reverse, scale, [&] {
      return fmt::format("input {}: <u, J v> = {:.17g}, <J^T u, v> = {:.17g}", i, forward, reverse);
    });
  }
  return comparison.result();
}

GradientWitness compare_with_composition(Recording& recording, int order, double tolerance) {
  Comparison comparison({.name = "composed", .order = order, .error = 0.0, .tolerance = tolerance, .worst = ""});
  Tape& tape = recording.tape;
  const Node& node = tape.node(recording.y.index());
  std::vector<Var> operands;
  for (std::size_t i = 0; i < node.input_count; ++i) operands.push_back(tape.var(node.inputs[i]));
  const Var y = node.operation->composed(operands);
  const std::vector<Tensor> gradients = tape.gradients(y, recording.xs, recording.u);
  for (std::size_t i = 0; i < gradients.size(); ++i) comparison.compare(recording.gradients[i], gradients[i], i);
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

// Zeros where f doesn't depend on an input at all.
std::vector<Tensor> dense_gradients(Tape& tape, const Var& y, std::span<const Var> xs, const Tensor& u) {
  std::vector<Tensor> gradients = tape.gradients(y, xs, u);
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (!gradients[i].defined()) gradients[i] = zeros(xs[i].shape(), DType::float64);
  }
  return gradients;
}

void record(Recording& recording, const DifferentiableFunction& function, const std::vector<Tensor>& inputs, Rng& rng) {
  recording.xs = record_inputs(recording.tape, inputs);
  recording.y = function(recording.xs);
  recording.u = random_like(recording.y.value(), rng);
  recording.gradients = dense_gradients(recording.tape, recording.y, recording.xs, recording.u);
}

void check_order(const DifferentiableFunction& function, const std::vector<Tensor>& inputs, int order,
                 const GradientCheckOptions& options, Rng& rng, GradientReport& report) {
  Recording recording;
  record(recording, function, inputs, rng);

  report.witnesses.push_back(
      compare_with_differences(function, inputs, recording, order, options.difference_tolerance));
  report.witnesses.push_back(compare_adjoint(recording, rng, order, options.exact_tolerance));
  const Operation* const operation = recording.tape.node(recording.y.index()).operation;
  if (order == 1 && operation != nullptr && operation->has_composition()) {
    report.witnesses.push_back(compare_with_composition(recording, order, options.exact_tolerance));
  }
  if (order == options.order) return;
  std::vector<Tensor> weights;
  for (const Tensor& input : inputs) weights.push_back(random_like(input, rng));
  check_order(gradient_of(function, std::move(weights), recording.u), inputs, order + 1, options, rng, report);
}

}  // namespace

bool GradientReport::passed() const {
  return std::all_of(witnesses.begin(), witnesses.end(), [](const GradientWitness& w) { return w.holds(); });
}

bool GradientWitness::worse_than(const GradientWitness& other) const {
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
    if (!w.holds()) text += ": " + w.worst;
  }
  return text;
}

GradientReport check_gradients(const DifferentiableFunction& function, const std::vector<Tensor>& inputs,
                               const GradientCheckOptions& options) {
  expect(options.order >= 1 && options.order <= 3, "check_gradients: order must be 1, 2 or 3, got {}", options.order);
  expect(!inputs.empty(), "check_gradients: it needs at least one input");
  Rng rng(options.seed);
  GradientReport report;
  check_order(function, widened(inputs), 1, options, rng, report);
  return report;
}

GradientWitness compare_vjp(const DifferentiableFunction& function, const std::vector<Tensor>& inputs,
                            const std::string& name, const std::function<Tensor(const Tensor&)>& other,
                            const GradientCheckOptions& options) {
  Rng rng(options.seed);
  Recording recording;
  record(recording, function, widened(inputs), rng);
  Comparison comparison({.name = name, .order = 1, .error = 0.0, .tolerance = options.exact_tolerance, .worst = ""});
  comparison.compare(recording.gradients[0], other(recording.u), 0);
  return comparison.result();
}

}  // namespace jnorm
