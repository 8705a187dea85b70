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
  expect(&to.tape() == &from.tape(), line, "linearize: the two values were recorded on different tapes");
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
  return dense_ = dense_jacobian(to_, from_, line_);
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

Tensor LinearMap::singular_values(Index count) const {
  const Index all = std::min(rows(), columns());
  expect(count >= -1 && count <= all, line_, "LinearMap::singular_values: there are {}, but {} were asked for", all,
         count);
  Tensor values = jnorm::singular_values(dense().to(DType::float64));
  if (count == -1 || count == all) return values;
  return tensor({count}, std::span<const double>(values.values()).first(static_cast<std::size_t>(count)),
                DType::float64);
}

double LinearMap::spectral_norm() const { return std::min(rows(), columns()) == 0 ? 0.0 : singular_values(1).item(); }

}  // namespace jnorm
