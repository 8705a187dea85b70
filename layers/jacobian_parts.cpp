#include <jnorm/layers/jacobian_parts.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/linear_algebra.hpp>
#include <jnorm/core/operations.hpp>

namespace jnorm {

namespace {

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

// [T dim] rows of a branch's Jacobian, each times its feature's lambda.
Tensor scaled_rows(const Tensor& matrix, const Tensor& lambda) {
  const Index n = matrix.dim(0), features = lambda.size();
  const Tensor factors = reshape(lambda.to(DType::float64), {features, 1});
  if (features == 1) return multiply(matrix, broadcast_to(factors, matrix.shape()));
  const Tensor rows = reshape(matrix, {n / features, features, matrix.dim(1)});
  return reshape(multiply(rows, broadcast_to(factors, rows.shape())), matrix.shape());
}

}  // namespace

Tensor NormMap::before(const Tensor& matrix) const {
  return structured_ ? matmul(*structured_, matrix) : matmul(dense_, matrix);
}

Tensor NormMap::after(const Tensor& matrix) const {
  return structured_ ? matmul(matrix, *structured_) : matmul(matrix, dense_);
}

double NormMap::bound() const { return structured_ ? structured_->bound() : extreme_gains().first; }

std::pair<double, double> NormMap::extreme_gains() const {
  const Tensor sigma = structured_ ? structured_->singular_values() : singular_values(dense_);
  return {sigma.at({0}), sigma.at({sigma.size() - 1})};
}

Tensor JacobianParts::value(const std::string& path) const {
  for (const auto& [name, tensor] : state_) {
    if (name == path) return tensor;
  }
  return {};
}

NormMap JacobianParts::norm(const std::string& path) {
  const Tensor x = tape_.input(path).value().on_host();
  const Tensor rows = reshape(x, {x.size() / config_.dim, config_.dim});
  const Tensor gamma = value(path + ".gamma");
  switch (config_.norm) {
    case NormKind::layer: return layer_norm_jacobian(x, gamma, config_.eps);
    case NormKind::rms:
      if (config_.norm_fraction < 1.0) return partial_rms_norm_jacobian(x, gamma, config_.eps, config_.norm_fraction);
      return rms_norm_jacobian(x, gamma, config_.eps);
    case NormKind::batch:
      return batch_norm_evaluation_jacobian(rows, gamma, value(path + ".running_variance"), config_.eps);
    case NormKind::group: return group_norm_jacobian(rows, config_.norm_groups, gamma, config_.eps);
    case NormKind::scale: {
      const Tensor g = value(path + ".g");
      return scale_norm_jacobian(x, g.defined() ? g.item() : std::sqrt(static_cast<double>(config_.dim)), config_.eps);
    }
    case NormKind::dyt: return dynamic_tanh_jacobian(x, value(path + ".alpha").item(), gamma);
    case NormKind::none: break;
  }
  return identity_jacobian(x);
}

// The sublayer's Jacobian from its parts, as its rule orders them: SublayerReport says what of.
ComposedSublayer JacobianParts::compose(const std::string& path, const ResidualRule& rule, const Tensor& branch) {
  const Tensor one = identity(branch.dim(0), DType::float64);
  const std::string second_norm = rule.norm_input ? ".output_norm" : ".norm";
  Tensor skip = one, added = branch;  // J_F
  double bound = 1.0;                 // of the norms that nothing goes around
  if (rule.norm_input) {
    const NormMap input_norm = norm(path + ".norm");
    added = input_norm.after(added);  // J_F J_N
    if (rule.norm_skip) {
      skip = input_norm.before(one);
      bound = input_norm.bound();
    }
  }
  added = affine(added, rule.input_scale, 0.0);
  if (rule.norm_branch) added = norm(path + second_norm).before(added);
  if (rule.gain != ResidualRule::Gain::none) added = scaled_rows(added, value(path + ".lambda"));
  ComposedSublayer composed{.jacobian = add(affine(skip, rule.skip_scale, 0.0), added), .of_block_input = one};
  const double terms = jnorm::norm(rule.norm_skip ? add(affine(one, rule.skip_scale, 0.0), branch) : composed.jacobian);
  if (rule.norm_sum) {
    const NormMap sum_norm = norm(path + second_norm);
    composed = {.jacobian = sum_norm.before(composed.jacobian), .of_block_input = sum_norm.before(one)};
    bound *= sum_norm.bound();
  }
  composed.cancellation = std::max(1.0, bound * terms / jnorm::norm(composed.jacobian));
  if (rule.two_streams) composed.jacobian = two_streams(composed.jacobian, added, config_.dim);
  return composed;
}

}  // namespace jnorm
