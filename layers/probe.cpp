#include <jnorm/layers/probe.hpp>

#include <algorithm>
#include <cmath>
#include <memory>

#include <jnorm/autograd/linear_map.hpp>
#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/expect.hpp>
#include <jnorm/core/linear_algebra.hpp>
#include <jnorm/core/matrix_measures.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/layers/jacobian_parts.hpp>
#include <jnorm/layers/probe_input.hpp>

namespace jnorm {

namespace {

std::unique_ptr<Transformer> copy_of(const Transformer& model, DType dtype) {
  TransformerConfig config = model.config();
  config.dtype = dtype;
  config.precision = Precision::full;
  auto copy = std::make_unique<Transformer>(config, Rng(0));
  copy->load_state(model.state());
  copy->set_training(false);
  copy->to(model.device());
  return copy;
}

const Module& child(const Module& parent, std::string_view name) {
  const auto& children = parent.children();
  return **std::find_if(children.begin(), children.end(), [&](const auto& each) { return each->name() == name; });
}

Tensor dense(const Var& to, const Var& from) { return jacobian(to, from).to(DType::float64); }

// ||M||_F / sqrt(N): the root mean square of ||M^T u|| over unit vectors u.
double mean_gain(const Tensor& matrix) { return norm(matrix) / std::sqrt(static_cast<double>(matrix.dim(0))); }

JacobianMeasures measure(const Tensor& jacobian, const Tensor& composed, double cancellation) {
  const Tensor sigma = singular_values(jacobian);
  return {.identity_distance = identity_distance(jacobian),
          .sigma_max = sigma.at({0}),
          .sigma_min = sigma.at({sigma.size() - 1}),
          .decomposition_error = relative_distance(jacobian, composed) / cancellation};
}

const Block& block(const Transformer& model, Index layer) {
  return dynamic_cast<const Block&>(child(child(model, "blocks"), std::to_string(layer)));
}

// What sublayers make up together.
struct Whole {
  Tensor jacobian;
  double cancellation = 1.0;  // the most of any of them
};

// One recorded forward of the stack, and what the parts of it are.
class Recording {
 public:
  Recording(Transformer& model, const ProbeOptions& options);

  Index layers() const { return model_.config().layers; }
  Var x(Index layer) { return layer == 0 ? x0_ : tape_.output(block_path(layer - 1)); }  // x_0, ..., x_L
  // The block's Jacobian, and the most that a part of it cancels, go to `whole`.
  LayerReport measure_layer(Index layer, Whole& whole);
  // Of the loss; empty without targets.
  std::vector<double> loss_gradient_norms();

 private:
  static std::string block_path(Index layer) { return fmt::format("blocks.{}", layer); }
  Var input(const ProbeOptions& options);
  Var drawn_x0(const ProbeOptions& options);
  Pass begin_pass(const ProbeOptions& options, Index positions);
  // Multiplies the sublayer's parts onto those of the block's earlier ones.
  SublayerReport measure_sublayer(const std::string& path, const ResidualRule& rule, Whole& of_block);

  Transformer& model_;
  Tape tape_;
  JacobianParts parts_;
  Var x0_;
  Var loss_;
};

Recording::Recording(Transformer& model, const ProbeOptions& options)
    : model_(model), parts_(model, tape_), x0_(input(options)) {
  const Pass pass = begin_pass(options, x0_.dim(1));
  const Var last = model.stack(x0_, pass);
  if (options.targets.defined()) loss_ = cross_entropy(model.unembed(last, pass), options.targets.to(model.device()));
  const NodeIndex culprit = tape_.first_non_finite();
  if (culprit != kNone) {
    fail(ErrorKind::non_finite, "probe: the model's values aren't finite; the first is in the output of {}",
         tape_.describe(culprit));
  }
}

Var Recording::input(const ProbeOptions& options) {
  expect(!options.tokens.defined() || !options.x0.defined(), "probe: give tokens or x0, not both");
  expect(options.tokens.defined() || !options.targets.defined(), "probe: targets need tokens");
  if (options.tokens.defined()) {
    expect(options.tokens.rank() == 2 && options.tokens.dim(0) == 1,
           "probe: expected the tokens of one sequence, [1, T], got {}", options.tokens.shape());
    return model_.embed(tape_, options.tokens);
  }
  if (!options.x0.defined()) return drawn_x0(options);
  const Shape& shape = options.x0.shape();
  expect(shape.rank() == 3 && shape[0] == 1 && shape[1] > 0 && shape[2] == model_.config().stream_width(),
         "probe: expected x0 of shape [1, T, {}], got {}", model_.config().stream_width(), shape);
  return tape_.constant(options.x0.to(options.dtype).to(model_.device()), "x0");
}

// Drawn values are normalized once where the placement normalizes the stream.
Var Recording::drawn_x0(const ProbeOptions& options) {
  const TransformerConfig& config = model_.config();
  expect(options.context >= 0, "probe: context must not be negative, but is {}", options.context);
  Var x = drawn_input(tape_, model_, options.context == 0 ? config.context : options.context, options.seed);
  if (config.placement.normalizes_stream()) {
    const auto norm = make_norm(config.norm_config());
    norm->set_training(false);
    norm->to(config.dtype);
    norm->to(model_.device());
    x = (*norm)(x);
  }
  return model_.begin_streams(x);
}

Pass Recording::begin_pass(const ProbeOptions& options, Index positions) {
  if (!options.tokens.defined()) return drawn_pass(tape_, model_, positions, options.seed);
  return model_.begin_pass(tape_, {.tokens = options.tokens, .source = options.source});
}

SublayerReport Recording::measure_sublayer(const std::string& path, const ResidualRule& rule, Whole& of_block) {
  const Tensor jacobian = dense(tape_.output(path), tape_.input(path));
  const Tensor branch = dense(tape_.output(path + ".branch"), tape_.input(path + ".branch"));
  const ComposedSublayer composed = parts_.compose(path, rule, branch);
  Tensor& so_far = of_block.jacobian;
  const bool bottom = rule.adds_block_input && so_far.defined();
  so_far = so_far.defined() ? matmul(composed.jacobian, so_far) : composed.jacobian;
  if (bottom) so_far = add(so_far, composed.of_block_input);
  of_block.cancellation = std::max(of_block.cancellation, composed.cancellation);

  const bool has_norm = rule.norm_input || rule.norm_branch || rule.norm_sum;
  const auto [largest, smallest] = has_norm ? parts_.norm(path + ".norm").extreme_gains() : std::pair(1.0, 1.0);
  return {.name = path.substr(path.rfind('.') + 1),
          .jacobian = measure(jacobian, composed.jacobian, composed.cancellation),
          .branch_norm = mean_gain(branch),
          .norm_sigma_max = largest,
          .norm_sigma_min = smallest};
}

LayerReport Recording::measure_layer(Index layer, Whole& whole) {
  const std::string path = block_path(layer);
  LayerReport report{.layer = layer, .jacobian = {}, .sublayers = {}};
  Whole composed;
  for (const ResidualSublayer* sublayer : block(model_, layer).sublayers()) {
    report.sublayers.push_back(
        measure_sublayer(fmt::format("{}.{}", path, sublayer->name()), sublayer->rule(), composed));
  }
  whole.jacobian = dense(tape_.output(path), tape_.input(path));
  whole.cancellation = composed.cancellation;
  report.jacobian = measure(whole.jacobian, composed.jacobian, composed.cancellation);
  return report;
}

std::vector<double> Recording::loss_gradient_norms() {
  if (!loss_.defined()) return {};
  std::vector<Var> xs;
  for (Index layer = 0; layer <= layers(); ++layer) xs.push_back(x(layer));
  std::vector<double> norms;
  for (const Tensor& gradient : tape_.gradients(loss_, xs)) norms.push_back(norm(gradient));
  return norms;
}

}  // namespace

ProbeReport probe(const Transformer& model, const ProbeOptions& options) {
  const std::unique_ptr<Transformer> copy = copy_of(model, options.dtype);
  Recording recording(*copy, options);
  const Index layers = recording.layers();

  ProbeReport report;
  report.layers.resize(static_cast<std::size_t>(layers));
  Tensor product = identity(recording.x(0).value().size(), DType::float64);  // d x_L / d x_l, for l = L, L - 1, ...
  report.gradient_norms.push_back(mean_gain(product));
  double cancellation = 1.0;
  for (Index layer = layers; layer-- > 0;) {
    Whole block;
    report.layers[static_cast<std::size_t>(layer)] = recording.measure_layer(layer, block);
    product = matmul(product, block.jacobian);
    cancellation = std::max(cancellation, block.cancellation);
    report.gradient_norms.push_back(mean_gain(product));
    if (options.on_layer) options.on_layer(layers - layer);
  }
  std::reverse(report.gradient_norms.begin(), report.gradient_norms.end());
  if (options.targets.defined()) report.gradient_norms = recording.loss_gradient_norms();

  const Tensor sigma = singular_values(product);
  report.product = {
      .trace_over_n = trace(product) / static_cast<double>(product.dim(0)),
      .median_sigma = median(sigma),
      .effective_rank = effective_rank(sigma),
      .decomposition_error = relative_distance(dense(recording.x(layers), recording.x(0)), product) / cancellation};
  for (Index layer = 0; layer <= layers; ++layer) {
    const double gain = norm(recording.x(layer).value());
    report.mean_squares.push_back(gain * gain / static_cast<double>(product.dim(0)));
  }
  return report;
}

double ProbeReport::largest_decomposition_error() const {
  std::vector<double> errors{product.decomposition_error};
  for (const LayerReport& layer : layers) {
    errors.push_back(layer.jacobian.decomposition_error);
    for (const SublayerReport& sublayer : layer.sublayers) errors.push_back(sublayer.jacobian.decomposition_error);
  }
  // NaN counts as the largest: it must not pass for a small error.
  return *std::max_element(errors.begin(), errors.end(),
                           [](double a, double b) { return !std::isnan(a) && (std::isnan(b) || a < b); });
}

}  // namespace jnorm
