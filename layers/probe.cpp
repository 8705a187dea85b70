#include <jnorm/layers/probe.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include <jnorm/autograd/linear_map.hpp>
#include <jnorm/autograd/norm_jacobian.hpp>
#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/expect.hpp>
#include <jnorm/core/linear_algebra.hpp>
#include <jnorm/core/matrix_measures.hpp>
#include <jnorm/core/operations.hpp>

namespace jnorm {

namespace {

std::unique_ptr<Transformer> copy_of(const Transformer& model, DType dtype) {
  TransformerConfig config = model.config();
  config.dtype = dtype;
  config.precision = Precision::full;
  auto copy = std::make_unique<Transformer>(config, Rng(0));
  copy->load_state(model.state());
  copy->set_training(false);
  return copy;
}

const Module& child(const Module& parent, std::string_view name) {
  const auto& children = parent.children();
  return **std::find_if(children.begin(), children.end(), [&](const auto& each) { return each->name() == name; });
}

Tensor dense(const Var& to, const Var& from) { return jacobian(to, from).to(DType::float64); }

// ||M||_F / sqrt(N): the root mean square of ||M^T u|| over unit vectors u.
double mean_gain(const Tensor& matrix) { return norm(matrix) / std::sqrt(static_cast<double>(matrix.dim(0))); }

JacobianMeasures measure(const Tensor& jacobian, const Tensor& composed) {
  const Tensor sigma = singular_values(jacobian);
  return {.identity_distance = identity_distance(jacobian),
          .sigma_max = sigma.at({0}),
          .sigma_min = sigma.at({sigma.size() - 1}),
          .decomposition_error = relative_distance(jacobian, composed)};
}

// J of two streams side by side in every position's row, [T, 2 dim], from its parts of [T dim]:
// [[first, 0], [added, I]].
Tensor two_streams(const Tensor& first, const Tensor& added, Index dim) {
  const Index n = first.dim(0), width = 2 * n;
  Tensor whole = zeros({width, width}, DType::float64);
  auto* const out = whole.mutable_data<double>();
  const auto at = [&](Index element, Index stream) { return element / dim * 2 * dim + stream * dim + element % dim; };
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) {
      out[at(i, 0) * width + at(j, 0)] = first.data<double>()[i * n + j];
      out[at(i, 1) * width + at(j, 0)] = added.data<double>()[i * n + j];
    }
    out[at(i, 1) * width + at(i, 1)] = 1.0;
  }
  return whole;
}

// A norm's Jacobian J_N in closed form: structured, or dense where the structure isn't NormJacobian's.
class NormMap {
 public:
  // NOLINTBEGIN(google-explicit-constructor): either is a norm's Jacobian
  NormMap(NormJacobian structured) : structured_(std::move(structured)) {}
  NormMap(Tensor dense) : dense_(std::move(dense)) {}
  // NOLINTEND(google-explicit-constructor)

  Tensor before(const Tensor& matrix) const {
    return structured_ ? matmul(*structured_, matrix) : matmul(dense_, matrix);
  }
  Tensor after(const Tensor& matrix) const {
    return structured_ ? matmul(matrix, *structured_) : matmul(matrix, dense_);
  }
  // The largest and the smallest singular value.
  std::pair<double, double> extreme_gains() const {
    const Tensor sigma = structured_ ? structured_->singular_values() : singular_values(dense_);
    return {sigma.at({0}), sigma.at({sigma.size() - 1})};
  }

 private:
  std::optional<NormJacobian> structured_;
  Tensor dense_;
};

// Partial RMSNorm's, row by row diag(gamma)/r (I - x_hat m^T / k), where m is x_hat in the k features that r is taken
// over, and 0 elsewhere: [RMS.5] with r's derivative only there.
Tensor partial_rms_norm_jacobian(const Tensor& x, const Tensor& gamma, double eps, double fraction) {
  const Index dim = x.row_length(), n = x.size();
  const Index k = static_cast<Index>(std::ceil(fraction * static_cast<double>(dim)));
  const std::vector<double> values = x.values();
  const std::vector<double> g =
      gamma.defined() ? gamma.values() : std::vector<double>(static_cast<std::size_t>(dim), 1.0);
  Tensor jacobian = zeros({n, n}, DType::float64);
  auto* const out = jacobian.mutable_data<double>();
  for (Index row = 0; row < n; row += dim) {
    const double* const x_row = values.data() + row;
    const double r = std::sqrt(std::inner_product(x_row, x_row + k, x_row, 0.0) / static_cast<double>(k) + eps);
    for (Index i = 0; i < dim; ++i) {
      double* const entry = out + (row + i) * n + row;
      for (Index j = 0; j < k; ++j) entry[j] = -x_row[i] * x_row[j] / (r * r * static_cast<double>(k));
      entry[i] += 1.0;
      for (Index j = 0; j < dim; ++j) entry[j] *= g[static_cast<std::size_t>(i)] / r;
    }
  }
  return jacobian;
}

const Block& block(const Transformer& model, Index layer) {
  return dynamic_cast<const Block&>(child(child(model, "blocks"), std::to_string(layer)));
}

// A sublayer's Jacobians, put together from its parts: by its input, and by what its block adds to the sum.
struct ComposedSublayer {
  Tensor jacobian;
  Tensor of_block_input;
};

// One recorded forward of the stack, and what the parts of it are.
class Recording {
 public:
  Recording(Transformer& model, const ProbeOptions& options);

  Index layers() const { return model_.config().layers; }
  Var x(Index layer) { return layer == 0 ? x0_ : tape_.output(block_path(layer - 1)); }  // x_0, ..., x_L
  LayerReport measure_layer(Index layer, Tensor& jacobian);
  // Of the loss; empty without targets.
  std::vector<double> loss_gradient_norms();

 private:
  static std::string block_path(Index layer) { return fmt::format("blocks.{}", layer); }
  Var input(const ProbeOptions& options);
  Var drawn_input(const ProbeOptions& options);
  Pass begin_pass(const ProbeOptions& options, const Shape& x0);
  Tensor parameter(const std::string& path) const;  // or a buffer; undefined if the model has none there
  NormMap norm_at(const std::string& path);
  ComposedSublayer compose(const std::string& path, const ResidualRule& rule, const Tensor& branch);
  // Multiplies the sublayer's parts onto those of the block's earlier ones.
  SublayerReport measure_sublayer(const std::string& path, const ResidualRule& rule, Tensor& of_block);

  Transformer& model_;
  NamedTensors state_;
  Tape tape_;
  Var x0_;
  Var loss_;
};

Recording::Recording(Transformer& model, const ProbeOptions& options)
    : model_(model), state_(model.state()), x0_(input(options)) {
  const Pass pass = begin_pass(options, x0_.shape());
  const Var last = model.stack(x0_, pass);
  if (options.targets.defined()) loss_ = cross_entropy(model.unembed(last, pass), options.targets);
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
  if (!options.x0.defined()) return drawn_input(options);
  const Shape& shape = options.x0.shape();
  expect(shape.rank() == 3 && shape[0] == 1 && shape[1] > 0 && shape[2] == model_.config().stream_width(),
         "probe: expected x0 of shape [1, T, {}], got {}", model_.config().stream_width(), shape);
  return tape_.constant(options.x0.to(options.dtype), "x0");
}

Var Recording::drawn_input(const ProbeOptions& options) {
  const TransformerConfig& config = model_.config();
  expect(options.context >= 0, "probe: context must not be negative, but is {}", options.context);
  const Index context = options.context == 0 ? config.context : options.context;
  Rng rng = Rng(options.seed).split("probe");
  Var x = tape_.constant(randn({1, context, config.dim}, rng, DType::float64).to(options.dtype), "x0");
  if (config.placement.normalizes_stream()) {
    const auto norm = make_norm(config.norm_config());
    norm->to(options.dtype);
    x = (*norm)(x);
  }
  return model_.begin_streams(x);
}

// What a decoder sees of its encoder is drawn, as x_0 is, unless tokens are given.
Pass Recording::begin_pass(const ProbeOptions& options, const Shape& x0) {
  const TransformerConfig& config = model_.config();
  if (options.tokens.defined()) return model_.begin_pass(tape_, {.tokens = options.tokens, .source = options.source});
  if (config.kind != ModelKind::encoder_decoder) return {};
  Rng rng = Rng(options.seed).split("memory");
  return {.memory = tape_.constant(randn({1, x0[1], config.dim}, rng, DType::float64).to(options.dtype), "memory")};
}

// [T dim] rows of a branch's Jacobian, each times its feature's lambda.
Tensor scaled_rows(const Tensor& matrix, const Tensor& lambda) {
  const Index n = matrix.dim(0), features = lambda.size();
  const Tensor factors = reshape(lambda.to(DType::float64), {features, 1});
  if (features == 1) return multiply(matrix, broadcast_to(factors, matrix.shape()));
  const Tensor rows = reshape(matrix, {n / features, features, matrix.dim(1)});
  return reshape(multiply(rows, broadcast_to(factors, rows.shape())), matrix.shape());
}

Tensor Recording::parameter(const std::string& path) const {
  for (const auto& [name, tensor] : state_) {
    if (name == path) return tensor;
  }
  return {};
}

NormMap Recording::norm_at(const std::string& path) {
  const TransformerConfig& config = model_.config();
  const Tensor& x = tape_.input(path).value();
  const Tensor rows = reshape(x, {x.size() / config.dim, config.dim});
  const Tensor gamma = parameter(path + ".gamma");
  switch (config.norm) {
    case NormKind::layer: return layer_norm_jacobian(x, gamma, config.eps);
    case NormKind::rms:
      if (config.norm_fraction < 1.0) return partial_rms_norm_jacobian(x, gamma, config.eps, config.norm_fraction);
      return rms_norm_jacobian(x, gamma, config.eps);
    case NormKind::batch:
      return batch_norm_evaluation_jacobian(rows, gamma, parameter(path + ".running_variance"), config.eps);
    case NormKind::group: return group_norm_jacobian(rows, config.norm_groups, gamma, config.eps);
    case NormKind::scale: {
      const Tensor g = parameter(path + ".g");
      return scale_norm_jacobian(x, g.defined() ? g.item() : std::sqrt(static_cast<double>(config.dim)), config.eps);
    }
    case NormKind::dyt: return dynamic_tanh_jacobian(x, parameter(path + ".alpha").item(), gamma);
    case NormKind::none: break;
  }
  return identity_jacobian(x);
}

// The sublayer's Jacobian from its parts, as its rule orders them: SublayerReport says what of.
ComposedSublayer Recording::compose(const std::string& path, const ResidualRule& rule, const Tensor& branch) {
  const Tensor one = identity(branch.dim(0), DType::float64);
  const std::string second_norm = rule.norm_input ? ".output_norm" : ".norm";
  Tensor skip = one, added = branch;  // J_F
  if (rule.norm_input) {
    const NormMap norm = norm_at(path + ".norm");
    added = norm.after(added);  // J_F J_N
    if (rule.norm_skip) skip = norm.before(one);
  }
  added = affine(added, rule.input_scale, 0.0);
  if (rule.norm_branch) added = norm_at(path + second_norm).before(added);
  if (rule.gain != ResidualRule::Gain::none) added = scaled_rows(added, parameter(path + ".lambda"));
  ComposedSublayer composed{.jacobian = add(affine(skip, rule.skip_scale, 0.0), added), .of_block_input = one};
  if (rule.norm_sum) {
    const NormMap norm = norm_at(path + second_norm);
    composed = {.jacobian = norm.before(composed.jacobian), .of_block_input = norm.before(one)};
  }
  if (rule.two_streams) composed.jacobian = two_streams(composed.jacobian, added, model_.config().dim);
  return composed;
}

SublayerReport Recording::measure_sublayer(const std::string& path, const ResidualRule& rule, Tensor& of_block) {
  const Tensor jacobian = dense(tape_.output(path), tape_.input(path));
  const Tensor branch = dense(tape_.output(path + ".branch"), tape_.input(path + ".branch"));
  const ComposedSublayer composed = compose(path, rule, branch);
  const bool bottom = rule.adds_block_input && of_block.defined();
  of_block = of_block.defined() ? matmul(composed.jacobian, of_block) : composed.jacobian;
  if (bottom) of_block = add(of_block, composed.of_block_input);

  const bool has_norm = rule.norm_input || rule.norm_branch || rule.norm_sum;
  const auto [largest, smallest] = has_norm ? norm_at(path + ".norm").extreme_gains() : std::pair(1.0, 1.0);
  return {.name = path.substr(path.rfind('.') + 1),
          .jacobian = measure(jacobian, composed.jacobian),
          .branch_norm = mean_gain(branch),
          .norm_sigma_max = largest,
          .norm_sigma_min = smallest};
}

LayerReport Recording::measure_layer(Index layer, Tensor& jacobian) {
  const std::string path = block_path(layer);
  LayerReport report{.layer = layer, .jacobian = {}, .sublayers = {}};
  Tensor composed;
  for (const ResidualSublayer* sublayer : block(model_, layer).sublayers()) {
    report.sublayers.push_back(
        measure_sublayer(fmt::format("{}.{}", path, sublayer->name()), sublayer->rule(), composed));
  }
  jacobian = dense(tape_.output(path), tape_.input(path));
  report.jacobian = measure(jacobian, composed);
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
  for (Index layer = layers; layer-- > 0;) {
    Tensor jacobian;
    report.layers[static_cast<std::size_t>(layer)] = recording.measure_layer(layer, jacobian);
    product = matmul(product, jacobian);
    report.gradient_norms.push_back(mean_gain(product));
    if (options.on_layer) options.on_layer(layers - layer);
  }
  std::reverse(report.gradient_norms.begin(), report.gradient_norms.end());
  if (options.targets.defined()) report.gradient_norms = recording.loss_gradient_norms();

  const Tensor sigma = singular_values(product);
  report.product = {.trace_over_n = trace(product) / static_cast<double>(product.dim(0)),
                    .median_sigma = median(sigma),
                    .effective_rank = effective_rank(sigma),
                    .decomposition_error = relative_distance(dense(recording.x(layers), recording.x(0)), product)};
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
