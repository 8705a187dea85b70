#include <jnorm/autograd/norm_jacobian.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

std::size_t index_of(Index value) { return static_cast<std::size_t>(value); }

Tensor descending(std::vector<double> values) {
  std::sort(values.begin(), values.end(), std::greater<>());
  return tensor({static_cast<Index>(values.size())}, values, DType::float64);
}

std::vector<Index> consecutive(Index first, Index count) {
  std::vector<Index> elements(index_of(count));
  std::iota(elements.begin(), elements.end(), first);
  return elements;
}

// The elements' numbers out of `source`, which all must be finite.
std::vector<double> gather(const char* norm, const std::vector<double>& source, const std::vector<Index>& elements) {
  std::vector<double> values(elements.size());
  for (std::size_t i = 0; i < elements.size(); ++i) {
    values[i] = source[index_of(elements[i])];
    if (!std::isfinite(values[i])) {
      fail(ErrorKind::non_finite, "{}_jacobian: element {} of x is {}", norm, elements[i], values[i]);
    }
  }
  return values;
}

void expect_finite(const char* norm, std::string_view name, std::span<const double> values) {
  for (const double value : values) {
    if (!std::isfinite(value)) fail(ErrorKind::non_finite, "{}_jacobian: {} holds {}", norm, name, value);
  }
}

void expect_eps(const char* norm, double eps) {
  // NaN isn't >= 0 either
  expect(eps >= 0.0, "{}_jacobian: eps must not be negative, but is {}", norm, eps);
  expect(std::isfinite(eps), "{}_jacobian: eps must be finite, but is {}", norm, eps);
}

void expect_numbers(const char* norm, std::string_view name, const Tensor& tensor) {
  expect(!tensor.defined() || tensor.dtype() != DType::int32, "{}_jacobian: {} must be floating-point, got int32", norm,
         name);
}

// x [..., H] and gamma [H]: returns gamma.
std::vector<double> checked_rows(const char* norm, const Tensor& x, const Tensor& gamma) {
  expect_numbers(norm, "x", x);
  expect_numbers(norm, "gamma", gamma);
  expect(x.rank() >= 1, "{}_jacobian: expected at least one axis, got a scalar", norm);
  expect(!gamma.defined() || gamma.shape() == Shape{x.dim(-1)},
         "{}_jacobian: the last axis of x is {}, but gamma has shape {}", norm, x.dim(-1), gamma.shape());
  std::vector<double> values = gamma.defined() ? gamma.values() : std::vector<double>(index_of(x.dim(-1)), 1.0);
  expect_finite(norm, "gamma", values);
  return values;
}

// x [N, C, ...] and a parameter [C].
void expect_channels(const char* norm, const Tensor& x, std::string_view name, const Tensor& parameter) {
  expect_numbers(norm, "x", x);
  expect_numbers(norm, name, parameter);
  expect(x.rank() >= 2, "{}_jacobian: expected x [N, C, ...], got {}", norm, x.shape());
  expect(!parameter.defined() || parameter.shape() == Shape{x.dim(1)},
         "{}_jacobian: x has {} channels, but {} has shape {}", norm, x.dim(1), name, parameter.shape());
}

std::vector<double> checked_channels(const char* norm, const Tensor& x, const Tensor& gamma) {
  expect_channels(norm, x, "gamma", gamma);
  std::vector<double> values = gamma.defined() ? gamma.values() : std::vector<double>(index_of(x.dim(1)), 1.0);
  expect_finite(norm, "gamma", values);
  return values;
}

Index trailing_size(const Tensor& x) {
  Index size = 1;
  for (int axis = 2; axis < x.rank(); ++axis) size *= x.dim(axis);
  return size;
}

// Which of the positions [N, ...] without the channels' axis count.
std::vector<bool> counted_positions(const Tensor& x, const Tensor& mask) {
  const Index trailing = trailing_size(x);
  std::vector<bool> counted(index_of(x.dim(0) * trailing), true);
  if (!mask.defined()) return counted;
  const Shape per_position = x.shape().with_axis(1, 1);
  Shape per_sample = per_position;
  for (int axis = 2; axis < x.rank(); ++axis) per_sample = per_sample.with_axis(axis, 1);
  const bool by_sample = mask.shape() == Shape{x.dim(0)} || mask.shape() == per_sample;
  expect(by_sample || mask.shape() == per_position,
         "batch_norm_jacobian: x is {}, so that a mask is {}, {} or {}, but it has shape {}", x.shape(),
         Shape{x.dim(0)}, per_sample, per_position, mask.shape());
  const std::vector<double> values = mask.values();
  for (std::size_t i = 0; i < counted.size(); ++i) {
    counted[i] = values[by_sample ? i / index_of(trailing) : i] != 0.0;
  }
  return counted;
}

// `part` and `number` say which part of x the block is: "row", 3.
NormBlock differentiable(const char* norm, const char* part, Index number, NormBlock block) {
  expect(block.s != 0.0, "{}_jacobian: {} {} of x is {} and eps is 0: the norm has no derivative there", norm, part,
         number, block.directions.empty() ? "zero" : "constant");
  return block;
}

std::vector<NormBlock> row_blocks(const char* norm, const Tensor& x, const Tensor& gamma, double eps, bool centred) {
  const std::vector<double> scales = checked_rows(norm, x, gamma);
  expect_eps(norm, eps);
  const std::vector<double> values = x.values();
  std::vector<NormBlock> blocks;
  for (Index row = 0; row < x.rows(); ++row) {
    std::vector<Index> elements = consecutive(row * x.row_length(), x.row_length());
    std::vector<double> gathered = gather(norm, values, elements);
    blocks.push_back(differentiable(norm, "row", row,
                                    normalizing_block(std::move(elements), std::move(gathered), scales, eps, centred)));
  }
  return blocks;
}

std::vector<NormBlock> diagonal(std::vector<double> entries) {
  if (entries.empty()) return {};
  std::vector<Index> elements = consecutive(0, static_cast<Index>(entries.size()));
  return {NormBlock{.elements = std::move(elements), .gamma = std::move(entries)}};
}

// 1 - tanh(a)^2 without the cancellation.
double squared_sech(double a) {
  const double e = std::exp(-2.0 * std::abs(a));
  return 4.0 * e / ((1.0 + e) * (1.0 + e));
}

}  // namespace

NormJacobian layer_norm_jacobian(const Tensor& x, const Tensor& gamma, double eps) {
  return {x.shape(), row_blocks("layer_norm", x, gamma, eps, true)};
}

NormJacobian rms_norm_jacobian(const Tensor& x, const Tensor& gamma, double eps) {
  return {x.shape(), row_blocks("rms_norm", x, gamma, eps, false)};
}

// RMSNorm with gamma = g / sqrt(H) and the H-th part of eps: n = sqrt(H) r.
NormJacobian scale_norm_jacobian(const Tensor& x, double g, double eps) {
  checked_rows("scale_norm", x, {});
  expect_eps("scale_norm", eps);
  expect_finite("scale_norm", "g", {&g, 1});
  const std::vector<double> values = x.values();
  const auto width = static_cast<double>(x.row_length());
  const std::vector<double> gamma(index_of(x.row_length()), g / std::sqrt(width));
  std::vector<NormBlock> blocks;
  for (Index row = 0; row < x.rows(); ++row) {
    std::vector<Index> elements = consecutive(row * x.row_length(), x.row_length());
    std::vector<double> gathered = gather("scale_norm", values, elements);
    NormBlock block = normalizing_block(std::move(elements), std::move(gathered), gamma, eps / width, false);
    if (block.s != 0.0) blocks.push_back(std::move(block));  // the zero row's convention
  }
  return {x.shape(), std::move(blocks)};
}

NormJacobian group_norm_jacobian(const Tensor& x, Index groups, const Tensor& gamma, double eps) {
  const std::vector<double> scales = checked_channels("group_norm", x, gamma);
  expect_eps("group_norm", eps);
  expect(groups >= 1, "group_norm_jacobian: expected at least one group, got {}", groups);
  const Index channels = x.dim(1);
  expect(channels % groups == 0, "group_norm_jacobian: {} groups don't divide {} channels", groups, channels);
  const Index trailing = trailing_size(x);
  const Index group_size = channels / groups * trailing;
  const std::vector<double> values = x.values();
  std::vector<NormBlock> blocks;
  for (Index first = 0; first < x.size(); first += group_size) {
    std::vector<Index> elements = consecutive(first, group_size);
    std::vector<double> gathered = gather("group_norm", values, elements);
    std::vector<double> gammas(elements.size());
    for (std::size_t i = 0; i < gammas.size(); ++i) gammas[i] = scales[index_of(elements[i] / trailing % channels)];
    blocks.push_back(
        differentiable("group_norm", "group", first / group_size,
                       normalizing_block(std::move(elements), std::move(gathered), std::move(gammas), eps, true)));
  }
  return {x.shape(), std::move(blocks)};
}

NormJacobian batch_norm_jacobian(const Tensor& x, const Tensor& gamma, double eps, const Tensor& mask) {
  const std::vector<double> scales = checked_channels("batch_norm", x, gamma);
  expect_eps("batch_norm", eps);
  const std::vector<bool> counted = counted_positions(x, mask);
  const Index channels = x.dim(1), trailing = trailing_size(x);
  const std::vector<double> values = x.values();
  std::vector<NormBlock> blocks;
  for (Index channel = 0; channel < channels; ++channel) {
    std::vector<Index> elements;
    for (Index position = 0; position < static_cast<Index>(counted.size()); ++position) {
      const Index sample = position / trailing;
      if (counted[index_of(position)]) elements.push_back(position + (sample * (channels - 1) + channel) * trailing);
    }
    if (elements.empty()) continue;
    std::vector<double> gathered = gather("batch_norm", values, elements);
    std::vector<double> gammas(elements.size(), scales[index_of(channel)]);
    blocks.push_back(
        differentiable("batch_norm", "channel", channel,
                       normalizing_block(std::move(elements), std::move(gathered), std::move(gammas), eps, true)));
  }
  return {x.shape(), std::move(blocks)};
}

NormJacobian batch_norm_evaluation_jacobian(const Tensor& x, const Tensor& gamma, const Tensor& running_variance,
                                            double eps) {
  constexpr const char* norm = "batch_norm_evaluation";
  const std::vector<double> scales = checked_channels(norm, x, gamma);
  expect_eps(norm, eps);
  expect(running_variance.defined(), "{}_jacobian: expected a running_variance, got an undefined tensor", norm);
  expect_channels(norm, x, "running_variance", running_variance);
  const std::vector<double> variances = running_variance.values();
  expect_finite(norm, "running_variance", variances);
  for (std::size_t channel = 0; channel < variances.size(); ++channel) {
    expect(variances[channel] >= 0.0, "{}_jacobian: running_variance must not be negative, but is {} in channel {}",
           norm, variances[channel], channel);
    expect(variances[channel] + eps > 0.0, "{}_jacobian: running_variance and eps are both 0 in channel {}", norm,
           channel);
  }
  std::vector<double> entries(index_of(x.size()));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto channel = index_of(static_cast<Index>(i) / trailing_size(x) % x.dim(1));
    entries[i] = scales[channel] / std::sqrt(variances[channel] + eps);  // [BN.10]
  }
  return {x.shape(), diagonal(std::move(entries))};
}

NormJacobian dynamic_tanh_jacobian(const Tensor& x, double alpha, const Tensor& gamma) {
  const std::vector<double> scales = checked_rows("dynamic_tanh", x, gamma);
  expect_finite("dynamic_tanh", "alpha", {&alpha, 1});
  std::vector<double> entries = gather("dynamic_tanh", x.values(), consecutive(0, x.size()));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i] = scales[i % scales.size()] * alpha * squared_sech(alpha * entries[i]);  // [DYT.5]
  }
  return {x.shape(), diagonal(std::move(entries))};
}

NormJacobian identity_jacobian(const Tensor& x) {
  return {x.shape(), diagonal(std::vector<double>(index_of(x.size()), 1.0))};
}

NormJacobian NormJacobian::block(Index index) const {
  expect(index >= 0 && index < block_count(), "NormJacobian: there are {} blocks, but block {} was asked for",
         block_count(), index);
  NormBlock only = blocks_[index_of(index)];
  const auto size = static_cast<Index>(only.size());
  only.elements = consecutive(0, size);
  return {Shape{size}, {std::move(only)}};
}

Index NormJacobian::elements_without_block() const {
  Index count = size();
  for (const NormBlock& block : blocks_) count -= static_cast<Index>(block.size());
  return count;
}

// Calls map(block, vector, result) for the elements of every block of every vector.
template <class BlockMap>
Tensor NormJacobian::map_blocks(const char* what, const Tensor& vectors, BlockMap&& map) const {
  const bool one = vectors.shape() == shape_;
  expect(one || (vectors.rank() == shape_.rank() + 1 && vectors.shape().without_leading() == shape_),
         "NormJacobian::{}: expected the shape {}, or it behind a leading axis, got {}", what, shape_, vectors.shape());
  const std::vector<double> values = vectors.values();
  std::vector<double> results(values.size(), 0.0), v, result;
  for (std::size_t offset = 0; offset < values.size(); offset += index_of(size())) {
    for (const NormBlock& block : blocks_) {
      v.resize(block.size());
      result.resize(block.size());
      for (std::size_t i = 0; i < v.size(); ++i) v[i] = values[offset + index_of(block.elements[i])];
      map(block, v.data(), result.data());
      for (std::size_t i = 0; i < v.size(); ++i) results[offset + index_of(block.elements[i])] = result[i];
    }
  }
  return tensor(vectors.shape(), results, DType::float64);
}

Tensor NormJacobian::apply(const Tensor& tangent) const {
  return map_blocks("apply", tangent,
                    [](const NormBlock& block, const double* v, double* result) { block.apply(v, 1, result); });
}

Tensor NormJacobian::apply_transposed(const Tensor& cotangent) const {
  return map_blocks("apply_transposed", cotangent, [](const NormBlock& block, const double* dy, double* result) {
    block.apply_transposed(dy, result);
  });
}

Tensor NormJacobian::dense() const {
  Tensor matrix = zeros({size(), size()}, DType::float64);
  double* entries = matrix.mutable_data<double>();
  for (const NormBlock& block : blocks_) {
    block.for_each_entry([&](std::size_t i, std::size_t j, double value) {
      entries[row_major_offset(block.elements[i], size(), block.elements[j])] = value;
    });
  }
  return matrix;
}

double NormJacobian::trace() const {
  double total = 0.0;
  for (const NormBlock& block : blocks_) total += block.trace();
  return total;
}

double NormJacobian::frobenius_norm() const {
  double total = 0.0;
  for (const NormBlock& block : blocks_) total += block.squared_norm();
  return std::sqrt(total);
}

double NormJacobian::distance_to_identity() const {
  if (size() == 0) return 0.0;
  auto total = static_cast<double>(elements_without_block());
  for (const NormBlock& block : blocks_) total += block.squared_distance_to_identity();
  return std::sqrt(total / static_cast<double>(size()));
}

double NormJacobian::log_volume() const {
  double total = elements_without_block() == 0 ? 0.0 : -std::numeric_limits<double>::infinity();
  for (const NormBlock& block : blocks_) total += block.log_volume();
  return total;
}

Tensor NormJacobian::singular_values() const {
  std::vector<double> all(index_of(elements_without_block()), 0.0);
  for (const NormBlock& block : blocks_) {
    for (const double value : block.singular_values()) all.push_back(value);
  }
  return descending(std::move(all));
}

Tensor NormJacobian::eigenvalues() const {
  std::vector<double> all(index_of(elements_without_block()), 0.0);
  for (const NormBlock& block : blocks_) {
    for (const double value : block.eigenvalues()) all.push_back(value);
  }
  return descending(std::move(all));
}

double NormJacobian::bound() const {
  double greatest = 0.0;
  for (const NormBlock& block : blocks_) {
    for (const double gamma : block.gamma) {
      if (block.s > 0.0) greatest = std::max(greatest, std::fabs(gamma) / block.s);  // else there is no derivative
    }
  }
  return greatest;
}

double NormJacobian::spectral_norm() const { return size() == 0 ? 0.0 : singular_values().at({0}); }

Index NormJacobian::rank(double tolerance) const {
  expect(tolerance >= 0.0 && tolerance < 1.0, "NormJacobian::rank: expected a tolerance in [0, 1), got {}", tolerance);
  const std::vector<double> values = singular_values().values();
  return std::count_if(values.begin(), values.end(), [&](double value) { return value > tolerance * values.front(); });
}

Tensor matmul(const NormJacobian& norm, const Tensor& matrix) {
  expect(matrix.rank() == 2 && matrix.dim(0) == norm.size(),
         "matmul: a norm's Jacobian of size {} can't multiply a matrix of shape {}", norm.size(), matrix.shape());
  const auto columns = index_of(matrix.dim(1));
  const std::vector<double> values = matrix.values();
  std::vector<double> results(values.size(), 0.0), rows, result;
  for (const NormBlock& block : norm.blocks_) {
    rows.clear();
    for (const Index element : block.elements) {
      const double* row = values.data() + index_of(element) * columns;
      rows.insert(rows.end(), row, row + columns);
    }
    result.resize(rows.size());
    block.apply(rows.data(), matrix.dim(1), result.data());
    for (std::size_t i = 0; i < block.size(); ++i) {
      std::copy_n(result.data() + i * columns, columns, results.data() + index_of(block.elements[i]) * columns);
    }
  }
  return tensor(matrix.shape(), results, DType::float64);
}

// Each row of M J is a row of M through J^T.
Tensor matmul(const Tensor& matrix, const NormJacobian& norm) {
  expect(matrix.rank() == 2 && matrix.dim(1) == norm.size(),
         "matmul: a matrix of shape {} can't multiply a norm's Jacobian of size {}", matrix.shape(), norm.size());
  const NormJacobian flat(Shape{norm.size()}, norm.blocks_);
  return flat.apply_transposed(matrix);
}

}  // namespace jnorm
