#include <jnorm/autograd/norm_block.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace jnorm {

namespace {

double largest_size(std::span<const double> values) {
  double largest = 0.0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

bool constant(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [&](double value) { return value == values.front(); });
}

void subtract_mean(std::vector<double>& values) {
  const double mean = std::reduce(values.begin(), values.end()) / static_cast<double>(values.size());
  for (double& value : values) value -= mean;
}

// Equal values become exact zeros; a second pass takes out what the first mean's rounding left.
void centre(std::vector<double>& values) {
  if (constant(values)) {
    std::fill(values.begin(), values.end(), 0.0);
  } else {
    subtract_mean(values);
    subtract_mean(values);
  }
}

// Divides values that aren't all 0 by their length, and returns it.
double make_unit(std::vector<double>& values) {
  const double largest = largest_size(values);
  for (double& value : values) value /= largest;
  const double length = std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
  for (double& value : values) value /= length;
  return largest * length;
}

// The eigenvalues of (1/s) (I - ...).
std::vector<double> bracket_eigenvalues(const NormBlock& block) {
  std::vector<double> values(block.size(), 1.0 / block.s);
  for (std::size_t k = 0; k < block.directions.size(); ++k) values[k] *= block.directions[k].kept;  // [LN.6] [RMS.6]
  return values;
}

}  // namespace

NormBlock normalizing_block(std::vector<Index> elements, std::vector<double> values, std::vector<double> gamma,
                            double eps, bool centred) {
  NormBlock block{.elements = std::move(elements), .gamma = std::move(gamma)};
  const double root_of_size = std::sqrt(static_cast<double>(values.size()));
  if (centred) {
    centre(values);
    block.directions.push_back({std::vector<double>(values.size(), 1.0 / root_of_size), 0.0});
  }
  const double root_of_eps = std::sqrt(eps);
  if (largest_size(values) == 0.0) {  // x_hat is 0: no direction
    block.s = root_of_eps;
    return block;
  }
  block.s = std::hypot(make_unit(values) / root_of_size, root_of_eps);  // [LN.1] [RMS.1] [BN.1] [GN.1]
  block.directions.push_back({std::move(values), (root_of_eps / block.s) * (root_of_eps / block.s)});
  return block;
}

double NormBlock::entry(std::size_t i, std::size_t j) const {
  double bracket = i == j ? 1.0 : 0.0;
  for (const auto& [unit, kept] : directions) bracket -= (1.0 - kept) * unit[i] * unit[j];
  return gamma[i] / s * bracket;
}

void NormBlock::apply(const double* v, Index columns, double* result) const {
  const auto width = static_cast<std::size_t>(columns);
  std::copy(v, v + size() * width, result);
  std::vector<double> along(width);
  for (const auto& [unit, kept] : directions) {
    std::fill(along.begin(), along.end(), 0.0);
    for (std::size_t i = 0; i < size(); ++i) {
      for (std::size_t c = 0; c < width; ++c) along[c] += unit[i] * v[i * width + c];
    }
    for (std::size_t i = 0; i < size(); ++i) {
      for (std::size_t c = 0; c < width; ++c) result[i * width + c] -= (1.0 - kept) * unit[i] * along[c];
    }
  }
  for (std::size_t i = 0; i < size(); ++i) {
    for (std::size_t c = 0; c < width; ++c) result[i * width + c] *= gamma[i] / s;
  }
}

void NormBlock::apply_transposed(const double* dy, double* result) const {
  for (std::size_t i = 0; i < size(); ++i) result[i] = gamma[i] / s * dy[i];
  std::vector<double> along(directions.size());
  for (std::size_t k = 0; k < directions.size(); ++k) {
    along[k] = std::inner_product(directions[k].unit.begin(), directions[k].unit.end(), result, 0.0);
  }
  for (std::size_t k = 0; k < directions.size(); ++k) {
    const auto& [unit, kept] = directions[k];
    for (std::size_t i = 0; i < size(); ++i) result[i] -= (1.0 - kept) * along[k] * unit[i];
  }
}

double NormBlock::trace() const {
  double total = 0.0;
  for (std::size_t i = 0; i < size(); ++i) total += entry(i, i);
  return total;
}

// Entry by entry: the short sums over i alone cancel where the directions take out all or nearly all.
double NormBlock::squared_norm() const {
  double total = 0.0;
  for_each_entry([&](std::size_t, std::size_t, double value) { total += value * value; });
  return total;
}

double NormBlock::squared_distance_to_identity() const {
  double total = 0.0;
  for_each_entry([&](std::size_t i, std::size_t j, double value) {
    const double difference = value - (i == j ? 1.0 : 0.0);
    total += difference * difference;
  });
  return total;
}

double NormBlock::log_volume() const {
  double total = 0.0;
  for (const double value : gamma) total += std::log(std::abs(value) / s);
  for (const ProjectedDirection& direction : directions) total += std::log(direction.kept);
  return total;
}

std::vector<double> NormBlock::singular_values() const {
  if (directions.empty() || constant(gamma)) {
    std::vector<double> values = bracket_eigenvalues(*this);
    for (std::size_t i = 0; i < size(); ++i) values[i] *= std::abs(gamma[i]);
    return values;
  }
  const double largest = largest_size(gamma);  // in its units the squares stay in range
  std::vector<double> squares(size());
  for (std::size_t i = 0; i < size(); ++i) squares[i] = (gamma[i] / largest) * (gamma[i] / largest);
  std::vector<ProjectedDirection> squared = directions;
  for (ProjectedDirection& direction : squared) direction.kept *= direction.kept;
  std::vector<double> values = scaled_projection_eigenvalues(squares, squared);
  for (double& value : values) value = largest / s * std::sqrt(value);
  return values;
}

std::vector<double> NormBlock::eigenvalues() const {
  if (directions.empty() || constant(gamma)) {
    std::vector<double> values = bracket_eigenvalues(*this);
    for (std::size_t i = 0; i < size(); ++i) values[i] *= gamma[i];
    return values;
  }
  std::vector<double> values = scaled_projection_eigenvalues(gamma, directions);
  for (double& value : values) value /= s;
  return values;
}

}  // namespace jnorm
