// The negative log-likelihood of targets under softmax(logits), with label smoothing s and class weights w of sum W.
// For a row x with target t, and 0 for a row whose target is ignored:
//
//   [CE.1]  loss_r = (1 - s) w[t] (logsumexp(x) - x[t]) + (s / V) sum_c w[c] (logsumexp(x) - x[c])
//   [CE.2]  dx = dloss_r (((1 - s) w[t] + s W / V) p - (1 - s) w[t] onehot(t) - (s / V) w)
//   [CE.3]  loss_dot_r = the product of [CE.2]'s row, at dloss_r = 1, and x_dot
//
// A mean divides their sum by n, the sum of w[t] over the rows that count. Saves logsumexp, one value a row; p is
// recomputed from it.

#include <cmath>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/masked.hpp>
#include <jnorm/autograd/site.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

// The composition's constants: of each row, which logits count, which elements of log softmax take part in the loss,
// and with what coefficient; and n.
struct RowConstants {
  Tensor counted, takes_part;  // [R, V] of int32
  Tensor coefficients;         // [R, V]
  double total_weight = 0.0;
};

RowConstants row_constants(const CrossEntropySettings& settings, const Tensor& targets, const Tensor& weights,
                           Index classes, DType dtype) {
  const auto size = static_cast<std::size_t>(checked_product(targets.size(), classes));
  const Tensor here = targets.on_host();
  std::vector<std::int32_t> counted(size), takes_part(size);
  std::vector<double> coefficients(size);
  const std::vector<double> weight =
      weights.defined() ? weights.values() : std::vector<double>(static_cast<std::size_t>(classes), 1.0);
  const double s = settings.label_smoothing;
  double total_weight = 0.0;
  for (Index row = 0; row < targets.size(); ++row) {
    const std::int32_t target = here.data<std::int32_t>()[row];
    if (target == settings.ignore_index) continue;
    total_weight += weight[static_cast<std::size_t>(target)];
    for (Index c = 0; c < classes; ++c) {
      const auto i = static_cast<std::size_t>(row_major_offset(row, classes, c));
      const bool hit = c == target;
      counted[i] = 1;
      takes_part[i] = hit || s > 0.0 ? 1 : 0;
      coefficients[i] =
          weight[static_cast<std::size_t>(c)] * ((hit ? 1.0 - s : 0.0) + s / static_cast<double>(classes));
    }
  }
  const Shape shape{targets.size(), classes};
  const Device device = targets.device();
  return {indices(shape, counted).to(device), indices(shape, takes_part).to(device),
          tensor(shape, coefficients, dtype).to(device), total_weight};
}

// The weights are the input after the targets, where there are any.
struct CrossEntropy : Fused<CrossEntropy> {
  static constexpr Description kDescription{
      .name = "cross_entropy",
      .inputs = "logits targets class_weights",
      .formula = "loss = mean(w[t] ((1 - s) (logsumexp(x) - x[t]) + s mean(logsumexp(x) - x)))",
      .source = "smoothing: Szegedy et al. 2016",
      .saved_inputs = 0b111,
      .saved = "lse"};
  CrossEntropySettings settings;
  explicit CrossEntropy(const CrossEntropySettings& chosen) : settings(chosen) {}

  void vjp(Pullback& back) const override {
    back.output().device().kernels().cross_entropy_dx(settings, back.cotangent(), back.input(0), back.input(1),
                                                      back.has_input(2) ? back.input(2) : Tensor(), back.saved(0),
                                                      back.into(0));  // [CE.2]
  }

  // A loss depends on a row of logits, or on all of them, and its gradient is that row of J.
  void jvp(Pushforward& push) const override {
    if (!push.has(0)) return;
    const Tensor& logits = push.input(0);
    const Tensor gradient = Tensor::uninitialized(logits.shape(), logits.dtype(), logits.device());
    logits.device().kernels().cross_entropy_dx(settings, ones(push.output().shape(), logits.dtype(), logits.device()),
                                               logits, push.input(1), push.has_input(2) ? push.input(2) : Tensor(),
                                               push.saved(0), {.tensor = gradient});
    const std::uint32_t last = 1u << (logits.rank() - 1), all = 2 * last - 1;
    const std::uint32_t axes = settings.reduction == Reduction::none ? last : all;
    const Tensor product = sum_axes(multiply(push.tangent(0), gradient), axes << push.axis(0));  // [CE.3]
    push.give(reshape(product, push.shaped(push.output().shape())));
  }

  Var composed(std::span<const Var> inputs) const override {
    const Tensor& targets = inputs[1].value();
    const Index classes = inputs[0].dim(-1);
    const RowConstants rows =
        row_constants(settings, targets, inputs.size() > 2 ? inputs[2].value() : Tensor(), classes, inputs[0].dtype());
    const Var logits = select(reshape(inputs[0], rows.counted.shape()), rows.counted);  // [R, V]
    const Var terms = select(log_softmax(logits), rows.takes_part) * rows.coefficients;
    if (settings.reduction == Reduction::none) return reshape(-sum(terms, {-1}), targets.shape());
    if (settings.reduction == Reduction::sum) return -sum(terms);
    return sum(terms) * (rows.total_weight > 0.0 ? -1.0 / rows.total_weight : 0.0);
  }
};

void expect_targets(const Var& logits, const Tensor& targets, std::int32_t ignore_index, const Site& site) {
  expect_numbers("cross_entropy", logits, site);
  expect(logits.rank() >= 1, site, "cross_entropy: logits must be [..., V], got a scalar");
  expect(targets.defined() && targets.dtype() == DType::int32, site, "cross_entropy: targets must be int32, got {}",
         targets.defined() ? to_string(targets.dtype()) : "an undefined tensor");
  const Index classes = logits.dim(-1);
  expect(targets.size() == logits.value().rows() && logits.shape().with_axis(-1, 1).size() == targets.size(), site,
         "cross_entropy: logits {} need one target a row, got targets {}", logits.shape(), targets.shape());
  const Tensor here = targets.on_host();
  const auto* const target = here.data<std::int32_t>();
  for (Index i = 0; i < targets.size(); ++i) {
    expect(target[i] == ignore_index || (target[i] >= 0 && target[i] < classes), site,
           "cross_entropy: target {} at position {} is outside [0, {}) and isn't {} (ignored)", target[i], i, classes,
           ignore_index);
  }
}

void expect_options(const Var& logits, const CrossEntropyOptions& options, const Site& site) {
  const double s = options.label_smoothing;
  expect(s >= 0.0 && s < 1.0, site, "cross_entropy: label_smoothing must be in [0, 1), but is {}", s);
  if (!options.class_weights.defined()) return;
  const Tensor& weights = options.class_weights;
  expect(weights.shape() == Shape{logits.dim(-1)}, site, "cross_entropy: class_weights must be [V] = [{}], got {}",
         logits.dim(-1), weights.shape());
  expect(weights.dtype() != DType::int32, site, "cross_entropy: class_weights must be floating-point, got int32");
  const std::vector<double> values = weights.values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    expect(std::isfinite(values[i]) && values[i] >= 0.0, site,
           "cross_entropy: class_weights must be finite and not negative, but that of class {} is {}", i, values[i]);
  }
}

}  // namespace

Var cross_entropy(const Var& logits, const Tensor& targets, const CrossEntropyOptions& options, SourceLine line) {
  const Site site = site_of("cross_entropy", logits, line);
  expect_targets(logits, targets, options.ignore_index, site);
  expect_options(logits, options, site);
  const CrossEntropySettings settings{options.ignore_index, options.label_smoothing, options.reduction};
  const DType statistics = statistics_dtype(logits.dtype());
  const Tensor weights = options.class_weights.defined() ? options.class_weights.to(statistics) : Tensor();
  const Device device = logits.value().device();
  const Shape shape = options.reduction == Reduction::none ? targets.shape() : Shape{};
  Tensor loss = Tensor::uninitialized(shape, logits.dtype(), device);
  Tensor lse = Tensor::uninitialized({logits.value().rows()}, statistics, device);
  device.kernels().cross_entropy(settings, logits.value(), targets, weights, loss, lse);

  Tape& tape = logits.tape();
  const CrossEntropy operation(settings);
  const Var recorded_targets = tape.constant(targets, "targets", line);
  if (!weights.defined()) {
    return tape.record(operation, {logits, recorded_targets}, std::move(loss), {std::move(lse)}, line);
  }
  const Var recorded_weights = tape.constant(weights, "class_weights", line);
  return tape.record(operation, {logits, recorded_targets, recorded_weights}, std::move(loss), {std::move(lse)}, line);
}

}  // namespace jnorm
