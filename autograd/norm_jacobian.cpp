#include <jnorm/autograd/norm_jacobian.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/linear_algebra.hpp>

namespace jnorm {

namespace {

double mean(const double* x, Index width) { return std::accumulate(x, x + width, 0.0) / static_cast<double>(width); }

double mean_square(const double* x, Index width) {
  return std::inner_product(x, x + width, x, 0.0) / static_cast<double>(width);
}

Tensor descending(std::vector<double> values) {
  std::sort(values.begin(), values.end(), std::greater<>());
  return tensor({static_cast<Index>(values.size())}, values, DType::float64);
}

}  // namespace

NormJacobian::NormJacobian(const char* norm, const Tensor& x, const Tensor& gamma, double eps, bool centred) {
  expect(x.rank() >= 1, "{}_jacobian: expected at least one axis, got a scalar", norm);
  expect(eps >= 0.0, "{}_jacobian: eps must not be negative, but is {}", norm, eps);  // NaN isn't >= 0 either
  expect(!gamma.defined() || gamma.shape() == Shape{x.dim(-1)},
         "{}_jacobian: the last axis of x is {}, but gamma has shape {}", norm, x.dim(-1), gamma.shape());
  shape_ = x.shape();
  gamma_ = gamma.defined() ? gamma.values() : std::vector<double>(static_cast<std::size_t>(x.dim(-1)), 1.0);
  const std::vector<double> values = x.values();
  for (Index row = 0; row < x.rows(); ++row) {
    blocks_.push_back(block_of(values.data() + row * row_length(), row_length(), eps, centred));
    expect(blocks_.back().s != 0.0, "{}_jacobian: row {} of x is {} and eps is 0: the norm has no derivative there",
           norm, row, centred ? "constant" : "zero");
  }
}

NormJacobian::Block NormJacobian::block_of(const double* x, Index width, double eps, bool centred) {
  std::vector<double> x_hat(x, x + width);
  const double centre = centred ? mean(x, width) : 0.0;
  for (double& value : x_hat) value -= centre;
  const double s = std::sqrt(mean_square(x_hat.data(), width) + eps);  // [LN.1] [RMS.1]
  for (double& value : x_hat) value /= s;

  Block block{.s = s, .directions = {}};
  if (centred) block.directions.push_back({.vector = std::vector<double>(x_hat.size(), 1.0), .kept = 0.0});
  // mean(x_hat^2) = 1 - eps/s^2: what is missing from 1 stays.
  block.directions.push_back({.vector = std::move(x_hat), .kept = eps / (s * s)});
  return block;
}

NormJacobian NormJacobian::row(Index index) const {
  expect(index >= 0 && index < rows(), "NormJacobian: there are {} rows, but row {} was asked for", rows(), index);
  NormJacobian single(*this);
  single.shape_ = Shape{row_length()};
  single.blocks_ = {blocks_[static_cast<std::size_t>(index)]};
  return single;
}

// result = (1/s) (v - sum over d of d (d^T v) / H)
void NormJacobian::apply_bracket(const Block& block, const double* v, Index columns, double* result) const {
  const Index height = row_length();
  std::vector<double> projection(static_cast<std::size_t>(columns));
  std::copy(v, v + height * columns, result);
  for (const Direction& direction : block.directions) {
    std::fill(projection.begin(), projection.end(), 0.0);
    for (Index i = 0; i < height; ++i) {
      const double weight = direction.vector[static_cast<std::size_t>(i)] / static_cast<double>(height);
      for (Index c = 0; c < columns; ++c) projection[static_cast<std::size_t>(c)] += weight * v[i * columns + c];
    }
    for (Index i = 0; i < height; ++i) {
      const double weight = direction.vector[static_cast<std::size_t>(i)];
      for (Index c = 0; c < columns; ++c) result[i * columns + c] -= weight * projection[static_cast<std::size_t>(c)];
    }
  }
  for (Index i = 0; i < height * columns; ++i) result[i] /= block.s;
}

// Calls map(block, vector, result) for every row of every vector.
template <class BlockMap>
Tensor NormJacobian::map_rows(const char* what, const Tensor& vectors, BlockMap&& map) const {
  const bool one = vectors.shape() == shape_;
  expect(one || (vectors.rank() == shape_.rank() + 1 && vectors.shape().without_leading() == shape_),
         "NormJacobian::{}: expected the shape {}, or it behind a leading axis, got {}", what, shape_, vectors.shape());
  const std::vector<double> values = vectors.values();
  std::vector<double> results(values.size());
  for (std::size_t row = 0; row * gamma_.size() < values.size(); ++row) {
    map(blocks_[row % blocks_.size()], values.data() + row * gamma_.size(), results.data() + row * gamma_.size());
  }
  return tensor(vectors.shape(), results, DType::float64);
}

Tensor NormJacobian::apply(const Tensor& tangent) const {
  return map_rows("apply", tangent, [&](const Block& block, const double* v, double* result) {
    apply_bracket(block, v, 1, result);
    for (std::size_t i = 0; i < gamma_.size(); ++i) result[i] *= gamma_[i];
  });
}

Tensor NormJacobian::apply_transposed(const Tensor& cotangent) const {
  return map_rows("apply_transposed", cotangent, [&](const Block& block, const double* dy, double* result) {
    std::vector<double> u(gamma_);
    for (std::size_t i = 0; i < u.size(); ++i) u[i] *= dy[i];
    apply_bracket(block, u.data(), 1, result);
  });
}

double NormJacobian::entry(const Block& block, std::size_t i, std::size_t j) const {
  double bracket = i == j ? 1.0 : 0.0;
  for (const Direction& d : block.directions) bracket -= d.vector[i] * d.vector[j] / static_cast<double>(gamma_.size());
  return gamma_[i] / block.s * bracket;
}

Tensor NormJacobian::dense(const Block& block) const {
  Tensor matrix = Tensor::uninitialized({row_length(), row_length()}, DType::float64);
  double* next = matrix.mutable_data<double>();
  for (std::size_t i = 0; i < gamma_.size(); ++i) {
    for (std::size_t j = 0; j < gamma_.size(); ++j) *next++ = entry(block, i, j);
  }
  return matrix;
}

Tensor NormJacobian::dense() const {
  Tensor matrix = zeros({size(), size()}, DType::float64);
  double* entries = matrix.mutable_data<double>();
  for (Index row = 0; row < size(); ++row) {
    const Index block = row / row_length();
    for (Index j = 0; j < row_length(); ++j) {
      entries[row * size() + block * row_length() + j] =
          entry(blocks_[static_cast<std::size_t>(block)], static_cast<std::size_t>(row % row_length()),
                static_cast<std::size_t>(j));
    }
  }
  return matrix;
}

double NormJacobian::trace() const {
  double total = 0.0;
  for (const Block& block : blocks_) {
    for (std::size_t i = 0; i < gamma_.size(); ++i) total += entry(block, i, i);
  }
  return total;
}

bool NormJacobian::constant_gamma() const {
  return std::all_of(gamma_.begin(), gamma_.end(), [&](double value) { return value == gamma_.front(); });
}

std::vector<double> NormJacobian::bracket_eigenvalues(const Block& block) const {
  std::vector<double> values(gamma_.size(), 1.0 / block.s);
  // A row of one number has fewer directions than LayerNorm names: its x_hat is 0.
  const std::size_t taken = std::min(values.size(), block.directions.size());
  for (std::size_t d = 0; d < taken; ++d) values[d] *= block.directions[d].kept;  // [LN.6] [RMS.6]
  return values;
}

Tensor NormJacobian::eigenvalues() const {
  expect(constant_gamma(), "NormJacobian::eigenvalues: there is a closed form for constant gamma only");
  std::vector<double> all;
  for (const Block& block : blocks_) {
    for (const double value : bracket_eigenvalues(block)) all.push_back(gamma_.front() * value);
  }
  return descending(std::move(all));
}

Tensor NormJacobian::singular_values() const {
  std::vector<double> all;
  for (const Block& block : blocks_) {
    if (constant_gamma()) {
      for (const double value : bracket_eigenvalues(block)) all.push_back(std::abs(gamma_.front()) * value);
    } else {
      for (const double value : jnorm::singular_values(dense(block)).values()) all.push_back(value);
    }
  }
  return descending(std::move(all));
}

double NormJacobian::spectral_norm() const { return size() == 0 ? 0.0 : singular_values().at({0}); }

NormJacobian layer_norm_jacobian(const Tensor& x, const Tensor& gamma, double eps) {
  return {"layer_norm", x, gamma, eps, true};
}

NormJacobian rms_norm_jacobian(const Tensor& x, const Tensor& gamma, double eps) {
  return {"rms_norm", x, gamma, eps, false};
}

NormJacobian identity_jacobian(const Tensor& x) {
  NormJacobian identity;
  identity.shape_ = x.shape();
  identity.gamma_.assign(static_cast<std::size_t>(x.row_length()), 1.0);
  identity.blocks_.assign(static_cast<std::size_t>(x.rows()), {.s = 1.0, .directions = {}});
  return identity;
}

Tensor matmul(const NormJacobian& norm, const Tensor& matrix) {
  expect(matrix.rank() == 2 && matrix.dim(0) == norm.size(),
         "matmul: a norm's Jacobian of size {} can't multiply a matrix of shape {}", norm.size(), matrix.shape());
  const Index columns = matrix.dim(1);
  const std::vector<double> values = matrix.values();
  std::vector<double> result(values.size());
  Index offset = 0;
  for (const NormJacobian::Block& block : norm.blocks_) {
    norm.apply_bracket(block, values.data() + offset, columns, result.data() + offset);
    for (const double gamma : norm.gamma_) {
      for (Index c = 0; c < columns; ++c) result[static_cast<std::size_t>(offset++)] *= gamma;
    }
  }
  return tensor(matrix.shape(), result, DType::float64);
}

// Each row of M J is a row of M through J^T.
Tensor matmul(const Tensor& matrix, const NormJacobian& norm) {
  expect(matrix.rank() == 2 && matrix.dim(1) == norm.size(),
         "matmul: a matrix of shape {} can't multiply a norm's Jacobian of size {}", matrix.shape(), norm.size());
  const Tensor cotangents = matrix.reshape(norm.shape_.with_leading(matrix.dim(0)));
  return norm.apply_transposed(cotangents).reshape(matrix.shape());
}

}  // namespace jnorm
