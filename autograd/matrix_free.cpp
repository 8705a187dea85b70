#include <jnorm/autograd/matrix_free.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/gemm.hpp>
#include <jnorm/core/linear_algebra.hpp>
#include <jnorm/core/operations.hpp>

namespace jnorm {

namespace {

// Where random directions come from that only start an iteration.
constexpr std::uint64_t kStartSeed = 0x6a6e6f726dULL;
// More vectors in a block than values asked for: the last of these would converge slowly otherwise.
constexpr Index kSpareVectors = 4;
// What is left of a vector by then, relative to ||J||, is rounding.
constexpr double kNothing = 1e-13;
constexpr Index kSamplesAtOnce = 32;

void expect_finite(const char* what, double length) {
  if (!std::isfinite(length)) fail(ErrorKind::non_finite, "{}: a product with the map isn't finite", what);
}

double length_of(const double* v, Index size) {
  double squares = 0.0;
  for (Index i = 0; i < size; ++i) squares += v[i] * v[i];
  return std::sqrt(squares);
}

// Orthonormal vectors, to which others are added.
class Basis {
 public:
  explicit Basis(Index length) : length_(length) {}

  Index size() const { return size_; }
  Index length() const { return length_; }

  // Takes out of w what lies in the span, and returns its coordinates there. If more than `nothing` is left, w gives
  // the next basis vector and the last coordinate.
  std::vector<double> absorb(double* w, double nothing) {
    std::vector<double> coordinates(static_cast<std::size_t>(size_));
    for (int pass = 0; pass < 2; ++pass) project_out(w, coordinates);  // twice is enough (Kahan)
    const double left = length_of(w, length_);
    if (size_ == length_ || !(left > nothing)) return coordinates;
    // Little may be left, of which rounding is a part: orthogonal to it, the vector is made once more at full length.
    std::vector<double> ignored(coordinates.size());
    scale(w, 1.0 / left);
    project_out(w, ignored);
    scale(w, 1.0 / length_of(w, length_));
    vectors_.insert(vectors_.end(), w, w + length_);
    ++size_;
    coordinates.push_back(left);
    return coordinates;
  }

  // The vectors from `first` on, [K, length].
  Tensor from(Index first) const {
    return tensor({size_ - first, length_},
                  std::span<const double>(vectors_).subspan(static_cast<std::size_t>(first * length_)), DType::float64);
  }

 private:
  void project_out(double* w, std::vector<double>& coordinates) const {
    if (size_ == 0) return;
    std::vector<double> inner(coordinates.size());
    gemm(false, false, size_, Index{1}, length_, 1.0, vectors_.data(), length_, w, Index{1}, 0.0, inner.data(),
         Index{1});
    gemm(false, false, Index{1}, length_, size_, -1.0, inner.data(), size_, vectors_.data(), length_, 1.0, w, length_);
    for (std::size_t i = 0; i < inner.size(); ++i) coordinates[i] += inner[i];
  }
  void scale(double* w, double factor) const {
    for (Index i = 0; i < length_; ++i) w[i] *= factor;
  }

  Index length_, size_ = 0;
  std::vector<double> vectors_;
};

using Columns = std::vector<std::vector<double>>;  // of a matrix; each may be short of zeros at its end

Tensor matrix_of(const Columns& columns, Index rows) {
  const auto width = static_cast<Index>(columns.size());
  std::vector<double> values(static_cast<std::size_t>(rows * width));
  for (std::size_t j = 0; j < columns.size(); ++j) {
    for (std::size_t i = 0; i < columns[j].size(); ++i) values[i * columns.size() + j] = columns[j][i];
  }
  return tensor({rows, width}, values, DType::float64);
}

// J V = U P holds throughout, for orthonormal bases V and U of two Krylov spaces that grow by a block at a time; P is
// block bidiagonal but for rounding. Its singular values tend to the largest of J's.
class Bidiagonalization {
 public:
  Bidiagonalization(const MatrixFree& map, Index block) : map_(map), v_(map.columns), u_(map.rows) {
    Rng rng(kStartSeed);
    Tensor start = randn({block, map.columns}, rng, DType::float64);
    double* const vectors = start.mutable_data<double>();
    for (Index k = 0; k < block; ++k) v_.absorb(vectors + k * map.columns, 0.0);
  }

  // One block more on either side; false when the spaces are complete, and P's values are J's.
  bool grow() {
    const Index first_u = u_.size();
    Tensor images = map_.apply(v_.from(first_new_v_));
    for (Columns columns = absorb(u_, images); auto& column : columns) projected_.push_back(std::move(column));
    first_new_u_ = first_u;
    if (u_.size() == first_u) return false;
    first_new_v_ = v_.size();
    Tensor candidates = map_.apply_transposed(u_.from(first_u));
    outside_ = absorb(v_, candidates);
    return v_.size() > first_new_v_;
  }

  Index size() const { return static_cast<Index>(projected_.size()); }
  Tensor projected() const { return matrix_of(projected_, u_.size()); }

  // ||J^T u - sigma v|| for the approximate left singular vector u = U p.
  double residual(const std::vector<double>& p) const {
    double squares = 0.0;
    for (Index row = first_new_v_; row < v_.size(); ++row) {
      double sum = 0.0;
      for (std::size_t c = 0; c < outside_.size(); ++c) {
        const auto i = static_cast<std::size_t>(row);
        if (i < outside_[c].size()) sum += outside_[c][i] * p[static_cast<std::size_t>(first_new_u_) + c];
      }
      squares += sum * sum;
    }
    return std::sqrt(squares);
  }

 private:
  // The coordinates of each image [K, length] in the basis that takes it in.
  Columns absorb(Basis& basis, Tensor& images) {
    Columns columns;
    double* const data = images.mutable_data<double>();
    for (Index k = 0; k < images.dim(0); ++k) {
      double* const image = data + k * basis.length();
      const double length = length_of(image, basis.length());
      expect_finite("lanczos_singular_values", length);
      longest_ = std::max(longest_, length);
      columns.push_back(basis.absorb(image, kNothing * longest_));
    }
    return columns;
  }

  const MatrixFree& map_;
  Basis v_, u_;
  Index first_new_v_ = 0, first_new_u_ = 0;
  Columns projected_;     // P
  Columns outside_;       // J^T of the newest block of U, in V's coordinates
  double longest_ = 0.0;  // image of a unit vector
};

std::vector<double> column(const Tensor& matrix, Index j) {
  const double* const values = matrix.data<double>();
  std::vector<double> result;
  for (Index i = 0; i < matrix.dim(0); ++i) result.push_back(values[row_major_offset(i, matrix.dim(1), j)]);
  return result;
}

bool have_converged(const Bidiagonalization& process, const Svd& decomposition, Index count, double tolerance) {
  if (decomposition.s.size() < count) return false;
  const double limit = tolerance * decomposition.s.at({0});
  for (Index i = 0; i < count; ++i) {
    if (!(process.residual(column(decomposition.u, i)) <= limit)) return false;
  }
  return true;
}

// The first `count` values, with zeros where there are fewer.
Tensor first_values(const Tensor& values, Index count) {
  std::vector<double> result = values.values();
  result.resize(static_cast<std::size_t>(count));
  return tensor({count}, result, DType::float64);
}

// The mean of measure(z, J^T z) over random signs z, with its standard error.
template <class Measure>
Estimate mean_over_signs(const char* what, const MatrixFree& map, Index samples, Rng& rng, Measure&& measure) {
  expect(samples >= 2, "{}: error bars need at least 2 samples, got {}", what, samples);
  std::vector<double> values;
  for (Index first = 0; first < samples; first += kSamplesAtOnce) {
    const Index count = std::min(kSamplesAtOnce, samples - first);
    const Tensor z = random_signs({count, map.rows}, rng, DType::float64);
    const Tensor g = map.apply_transposed(z);  // [K, columns]
    for (Index k = 0; k < count; ++k) {
      values.push_back(measure(z.data<double>() + k * map.rows, g.data<double>() + k * map.columns));
    }
  }
  const auto n = static_cast<double>(samples);
  double mean = 0.0, squares = 0.0;
  for (const double value : values) mean += value / n;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / (n - 1.0) / n), samples};
}

// Of a mean's root: d sqrt(m) = d m / (2 sqrt(m)).
Estimate root_of(const Estimate& mean) {
  const double root = std::sqrt(mean.value);
  return {root, root > 0.0 ? mean.standard_error / (2.0 * root) : 0.0, mean.samples};
}

void expect_square(const char* what, const MatrixFree& map) {
  expect(map.rows == map.columns, "{}: only a square map has one, but this is [{}, {}]", what, map.rows, map.columns);
}

}  // namespace

Tensor lanczos_singular_values(const MatrixFree& map, Index count, double tolerance) {
  const Index all = std::min(map.rows, map.columns);
  expect(count >= 0 && count <= all, "lanczos_singular_values: there are {}, but {} were asked for", all, count);
  if (count == 0) return zeros({0}, DType::float64);
  Bidiagonalization process(map, std::min(map.columns, count + kSpareVectors));
  for (Index next_look = 0;;) {
    const bool goes_on = process.grow();
    if (goes_on && process.size() < next_look) continue;
    const Svd decomposition = svd(process.projected());
    if (!goes_on || have_converged(process, decomposition, count, tolerance)) {
      return first_values(decomposition.s, count);
    }
    next_look = process.size() * 5 / 4;  // decompositions cost the cube of the size
  }
}

SpectralNorm power_iteration(const MatrixFree& map, const PowerIteration& options) {
  if (map.rows == 0 || map.columns == 0) return {.converged = true};
  Rng rng(kStartSeed);
  Tensor v = randn({1, map.columns}, rng, DType::float64);
  v = affine(v, 1.0 / norm(v), 0.0);
  SpectralNorm result;
  while (!result.converged && result.iterations < options.most_iterations) {
    const Tensor image = map.apply(v);
    const Tensor back = map.apply_transposed(image);
    result.value = norm(image);
    expect_finite("power_iteration", result.value);
    const double squared = result.value * result.value;
    result.converged = norm(subtract(back, affine(v, squared, 0.0))) <= options.tolerance * squared;
    ++result.iterations;
    if (result.value > 0.0) v = affine(back, 1.0 / norm(back), 0.0);
  }
  return result;
}

Estimate estimate_trace(const MatrixFree& map, Index samples, Rng& rng) {
  expect_square("estimate_trace", map);
  return mean_over_signs("estimate_trace", map, samples, rng, [&](const double* z, const double* g) {
    double sum = 0.0;
    for (Index i = 0; i < map.rows; ++i) sum += z[i] * g[i];
    return sum;
  });
}

Estimate estimate_frobenius_norm(const MatrixFree& map, Index samples, Rng& rng) {
  return root_of(
      mean_over_signs("estimate_frobenius_norm", map, samples, rng, [&](const double* /*z*/, const double* g) {
        double squares = 0.0;
        for (Index i = 0; i < map.columns; ++i) squares += g[i] * g[i];
        return squares;
      }));
}

Estimate estimate_distance_to_identity(const MatrixFree& map, Index samples, Rng& rng) {
  expect_square("estimate_distance_to_identity", map);
  return root_of(
      mean_over_signs("estimate_distance_to_identity", map, samples, rng, [&](const double* z, const double* g) {
        double squares = 0.0;
        for (Index i = 0; i < map.rows; ++i) squares += (g[i] - z[i]) * (g[i] - z[i]);
        return map.rows == 0 ? 0.0 : squares / static_cast<double>(map.rows);
      }));
}

}  // namespace jnorm
