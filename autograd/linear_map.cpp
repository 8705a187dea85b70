#include <jnorm/autograd/linear_map.hpp>

#include <algorithm>

#include <jnorm/autograd/dense_jacobian.hpp>
#include <jnorm/core/expect.hpp>
#include <jnorm/core/linear_algebra.hpp>
#include <jnorm/core/matrix_measures.hpp>
#include <jnorm/core/operations.hpp>

namespace jnorm {

LinearMap linearize(const Var& to, const Var& from, SourceLine line) {
  expect(to.defined() && from.defined(), line, "linearize: got a Var that was never recorded");
  expect(&to.tape("linearize") == &from.tape("linearize"), line,
         "linearize: the two values were recorded on different tapes");
  return {to, from, line};
}

Tensor jacobian(const Var& y, const Var& x, SourceLine line) { return linearize(y, x, line).dense(); }

Tensor LinearMap::apply(const Tensor& tangent) const { return to_.tape().push_forward(to_, from_, tangent, line_); }

Tensor LinearMap::apply_transposed(const Tensor& cotangent) const {
  Tensor gradient = to_.tape().gradients(to_, {&from_, 1}, cotangent, line_).front();
  if (gradient.defined()) return gradient;
  const bool several = cotangent.rank() > to_.rank();
  const Shape& shape = from_.shape();
  return zeros(several ? shape.with_leading(cotangent.dim(0)) : shape, from_.dtype(), from_.value().device());
}

const Tensor& LinearMap::dense() const {
  if (dense_.defined()) return dense_;
  return dense_ = dense_jacobian(to_, from_, line_).on_host();
}

void LinearMap::expect_square(const char* measure) const {
  expect(rows() == columns(), line_,
         "LinearMap::{}: only a square map has one, but this takes {} with {} elements to {} with {}", measure,
         from_.shape(), columns(), to_.shape(), rows());
}

double LinearMap::frobenius_norm() const { return norm(dense()); }

double LinearMap::trace() const {
  expect_square("trace");
  return jnorm::trace(dense());
}

double LinearMap::distance_to_identity() const {
  expect_square("distance_to_identity");
  return identity_distance(dense());
}

MatrixFree LinearMap::matrix_free() const {
  // [K, n] -> [K, ...] in the recording's dtype, and back.
  const auto shaped = [](const Tensor& flat, const Var& like) {
    return flat.to(like.dtype()).to(like.value().device()).reshape(like.shape().with_leading(flat.dim(0)));
  };
  const auto flat = [](const Tensor& several) {
    const Index count = several.dim(0);
    return several.reshape({count, count == 0 ? 0 : several.size() / count}).on_host().to(DType::float64);
  };
  const LinearMap map = *this;
  return {.rows = rows(),
          .columns = columns(),
          .apply = [=](const Tensor& v) { return flat(map.apply(shaped(v, map.from_))); },
          .apply_transposed = [=](const Tensor& u) { return flat(map.apply_transposed(shaped(u, map.to_))); }};
}

// The decomposition of a matrix costs the cube of its size, and Lanczos some tens of sweeps for each value.
bool LinearMap::is_cheaper_dense(Index count) const {
  return dense_.defined() || std::min(rows(), columns()) <= std::max<Index>(256, 64 * count);
}

Tensor LinearMap::singular_values(Index count) const {
  const Index all = std::min(rows(), columns());
  expect(count >= -1 && count <= all, line_, "LinearMap::singular_values: there are {}, but {} were asked for", all,
         count);
  if (count == -1) count = all;
  if (!is_cheaper_dense(count)) return lanczos_singular_values(matrix_free(), count);
  const Tensor values = jnorm::singular_values(dense().to(DType::float64));
  if (count == all) return values;
  return tensor({count}, std::span<const double>(values.values()).first(static_cast<std::size_t>(count)),
                DType::float64);
}

double LinearMap::spectral_norm(const PowerIteration& options) const {
  if (std::min(rows(), columns()) == 0) return 0.0;
  if (is_cheaper_dense(1)) return singular_values(1).item();
  const SpectralNorm norm = power_iteration(matrix_free(), options);
  return norm.converged ? norm.value : singular_values(1).item();
}

double LinearMap::log_volume() const { return jnorm::log_volume(singular_values()); }

Estimate LinearMap::estimate_trace(Index samples, Rng& rng) const {
  expect_square("estimate_trace");
  return jnorm::estimate_trace(matrix_free(), samples, rng);
}

Estimate LinearMap::estimate_frobenius_norm(Index samples, Rng& rng) const {
  return jnorm::estimate_frobenius_norm(matrix_free(), samples, rng);
}

Estimate LinearMap::estimate_distance_to_identity(Index samples, Rng& rng) const {
  expect_square("estimate_distance_to_identity");
  return jnorm::estimate_distance_to_identity(matrix_free(), samples, rng);
}

}  // namespace jnorm
