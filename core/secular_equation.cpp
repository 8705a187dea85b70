#include <jnorm/core/secular_equation.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

constexpr double kUnit = std::numeric_limits<double>::epsilon();

// The eigenvalues of the symmetric matrix [[xx, xy], [xy, yy]], in ascending order. The smaller in size comes from the
// determinant: where xx outweighs the others, that is yy - xy^2 / xx, and nothing cancels.
std::array<double, 2> ascending_eigenvalues(double xx, double xy, double yy) {
  const double middle = 0.5 * (xx + yy);
  const double larger = middle + std::copysign(std::hypot(0.5 * (xx - yy), xy), middle);
  if (larger == 0.0) return {0.0, 0.0};
  const double smaller = xx * (yy / larger) - xy * (xy / larger);
  return {std::min(larger, smaller), std::max(larger, smaller)};
}

// The positive eigenvalues of [SE.1], one by one.
class SecularEquation {
 public:
  SecularEquation(std::span<const double> d, std::span<const ProjectedDirection> directions);

  // The eigenvalue number j in ascending order of all, or 0 if it isn't positive.
  double positive_eigenvalue(std::size_t j) const;

 private:
  double kappa(int axis) const { return kappa_[static_cast<std::size_t>(axis)]; }
  std::array<double, 2> small_matrix_eigenvalues(double lambda) const;
  std::size_t poles_below(double lambda) const;
  std::size_t eigenvalues_below(double lambda) const;
  double root_between_poles(double low, double high, std::size_t j) const;

  std::size_t directions_ = 0;
  std::vector<double> d_;        // ascending
  std::vector<double> x_, y_;    // the directions' components, in the order of d_
  std::vector<double> length2_;  // x^2 + y^2
  // A direction that isn't there has components of 0 and a kappa of 1: it adds no negative eigenvalue.
  std::array<double, 2> kappa_{1.0, 1.0};
  mutable std::vector<double> weight_;  // scratch
};

SecularEquation::SecularEquation(std::span<const double> d, std::span<const ProjectedDirection> directions)
    : d_(d.size()), x_(d.size(), 0.0), y_(d.size(), 0.0), length2_(d.size()), weight_(d.size()) {
  std::vector<std::size_t> order(d.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return d[a] < d[b]; });
  for (std::size_t i = 0; i < order.size(); ++i) d_[i] = d[order[i]];
  for (const ProjectedDirection& direction : directions) {
    if (direction.kept == 1.0) continue;
    std::vector<double>& component = directions_ == 0 ? x_ : y_;
    for (std::size_t i = 0; i < order.size(); ++i) component[i] = direction.unit[order[i]];
    kappa_[directions_++] = direction.kept / (1.0 - direction.kept);
  }
  for (std::size_t i = 0; i < d_.size(); ++i) length2_[i] = x_[i] * x_[i] + y_[i] * y_[i];
}

// Of C(lambda) [SE.3], which is summed along axes that are turned so that its heaviest term lies along the first.
std::array<double, 2> SecularEquation::small_matrix_eigenvalues(double lambda) const {
  const std::size_t n = d_.size();
  double heaviest = 0.0;
#pragma omp simd reduction(max : heaviest)
  for (std::size_t i = 0; i < n; ++i) {
    weight_[i] = lambda / (lambda - d_[i]);
    heaviest = std::max(heaviest, std::abs(weight_[i]) * length2_[i]);
  }
  double cosine = kappa(0) >= kappa(1) ? 1.0 : 0.0;
  double sine = 1.0 - cosine;
  if (heaviest > std::max(kappa(0), kappa(1))) {
    std::size_t i = 0;
    while (std::abs(weight_[i]) * length2_[i] < heaviest) ++i;
    cosine = x_[i] / std::sqrt(length2_[i]);
    sine = y_[i] / std::sqrt(length2_[i]);
  }
  double xx = kappa(0) * cosine * cosine + kappa(1) * sine * sine;
  double xy = (kappa(1) - kappa(0)) * cosine * sine;
  double yy = kappa(0) * sine * sine + kappa(1) * cosine * cosine;
#pragma omp simd reduction(+ : xx, xy, yy)
  for (std::size_t i = 0; i < n; ++i) {
    const double along = cosine * x_[i] + sine * y_[i];
    const double across = cosine * y_[i] - sine * x_[i];
    xx += weight_[i] * along * along;
    xy += weight_[i] * along * across;
    yy += weight_[i] * across * across;
  }
  return ascending_eigenvalues(xx, xy, yy);
}

std::size_t SecularEquation::poles_below(double lambda) const {
  return static_cast<std::size_t>(std::lower_bound(d_.begin(), d_.end(), lambda) - d_.begin());
}

// [SE.2], for a lambda > 0 that is none of the d.
std::size_t SecularEquation::eigenvalues_below(double lambda) const {
  const auto [first, second] = small_matrix_eigenvalues(lambda);
  return poles_below(lambda) + static_cast<std::size_t>(first < 0.0) + static_cast<std::size_t>(second < 0.0);
}

double SecularEquation::positive_eigenvalue(std::size_t j) const {
  if (directions_ == 0 || d_[j] <= 0.0) return std::max(d_[j], 0.0);
  // What is smaller than this, squared or not, is 0 beside the largest.
  const double floor = std::max(std::numeric_limits<double>::min(), d_.back() * 1e-250);
  double high = d_[j];
  double low = j >= directions_ ? std::max(d_[j - directions_], 0.0) : 0.0;  // [SE.4]
  if (low == high) return high;
  if (low < floor) {
    if (high <= floor || eigenvalues_below(floor) > j) return 0.0;
    low = floor;
  }
  const double pole = j >= 1 ? d_[j - 1] : 0.0;
  if (low < pole && pole < high) {  // with two directions one pole may lie in between
    const double beyond = std::nextafter(pole, high);
    if (beyond == high) return high;
    (eigenvalues_below(beyond) > j ? high : low) = pole;
  }
  return root_between_poles(low, high, j);
}

// Regula falsi with Anderson and Bjorck's rule, on the eigenvalue of C that falls through 0 at lambda_j, bent into
// (-1, 1): its poles become finite. Three steps that don't halve the interval are followed by one that does.
double SecularEquation::root_between_poles(double low, double high, std::size_t j) const {
  const std::size_t branch = j - poles_below(high);
  double at_low = 1.0, at_high = -1.0;
  double target = 0.5 * (high - low);
  int slow_steps = 0, last_moved = 0;
  while (high - low > kUnit * high) {
    const double margin = kUnit * high;
    double lambda = low + (high - low) * (slow_steps >= 3 ? 0.5 : at_low / (at_low - at_high));
    if (high > 4.0 * low) lambda = std::sqrt(low) * std::sqrt(high);
    lambda = high - low > 2.0 * margin ? std::clamp(lambda, low + margin, high - margin) : low + 0.5 * (high - low);
    if (lambda <= low || lambda >= high) break;
    const double value = small_matrix_eigenvalues(lambda)[branch];
    const double bent = value / (1.0 + std::abs(value));
    // Where the same end moves twice, the other one's value is scaled down, to draw the next step beyond the root.
    if (value >= 0.0) {
      if (last_moved == 1) at_high *= at_low > bent ? 1.0 - bent / at_low : 0.5;
      last_moved = 1;
      low = lambda, at_low = bent;
    } else {
      if (last_moved == -1) at_low *= at_high < bent ? 1.0 - bent / at_high : 0.5;
      last_moved = -1;
      high = lambda, at_high = bent;
    }
    slow_steps = high - low > target ? slow_steps + 1 : 0;
    if (slow_steps == 0) target = 0.5 * (high - low);
  }
  return low + 0.5 * (high - low);
}

void expect_projection(std::span<const double> d, std::span<const ProjectedDirection> directions) {
  constexpr double tolerance = 1e-8;
  for (std::size_t i = 0; i < d.size(); ++i) {
    if (!std::isfinite(d[i])) {
      fail(ErrorKind::non_finite, "scaled_projection_eigenvalues: element {} of d is not finite", i);
    }
  }
  expect(directions.size() <= 2, "scaled_projection_eigenvalues: expected at most two directions, got {}",
         directions.size());
  for (const auto& [unit, kept] : directions) {
    expect(kept >= 0.0 && kept <= 1.0, "scaled_projection_eigenvalues: expected kept in [0, 1], got {}", kept);
    expect(unit.size() == d.size(), "scaled_projection_eigenvalues: d has {} elements, but a direction has {}",
           d.size(), unit.size());
    const double length = std::sqrt(std::inner_product(unit.begin(), unit.end(), unit.begin(), 0.0));
    expect(std::abs(length - 1.0) <= tolerance,
           "scaled_projection_eigenvalues: expected directions of length 1, got one of length {}", length);
  }
  if (directions.size() == 2) {
    const std::vector<double>& first = directions[0].unit;
    const double cosine = std::inner_product(first.begin(), first.end(), directions[1].unit.begin(), 0.0);
    expect(std::abs(cosine) <= tolerance,
           "scaled_projection_eigenvalues: expected orthogonal directions, but their product is {}", cosine);
  }
}

}  // namespace

std::vector<double> scaled_projection_eigenvalues(std::span<const double> d,
                                                  std::span<const ProjectedDirection> directions) {
  expect_projection(d, directions);
  std::vector<double> values(d.size());
  const SecularEquation equation(d, directions);
  for (std::size_t j = 0; j < values.size(); ++j) values[j] = equation.positive_eigenvalue(j);

  if (std::any_of(d.begin(), d.end(), [](double value) { return value < 0.0; })) {
    std::vector<double> negated(d.begin(), d.end());
    for (double& value : negated) value = -value;
    const SecularEquation mirrored(negated, directions);
    for (std::size_t j = 0; j < values.size(); ++j) values[j] -= mirrored.positive_eigenvalue(values.size() - 1 - j);
  }
  std::sort(values.begin(), values.end(), std::greater<>());
  return values;
}

}  // namespace jnorm
