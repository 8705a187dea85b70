#include <jnorm/autograd/linear_map.hpp>

#include <algorithm>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/linear_algebra.hpp>
#include <jnorm/core/matrix_measures.hpp>
#include <jnorm/core/operations.hpp>

namespace jnorm {

namespace {

constexpr Index kCotangentsAtOnce = 32;

// e_first, e_first+1, ... shaped like y: [count, ...].
Tensor one_hot_cotangents(const Tensor& y, Index first, Index count) {
  Tensor cotangents = zeros({count, y.size()}, y.dtype(), y.device());
  dispatch_floating("jacobian", y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* const entries = cotangents.output_data<T>();
    for (Index k = 0; k < count; ++k) entries[row_major_offset(k, y.size(), first + k)] = static_cast<T>(1.0F);
  });
  return cotangents.reshape(y.shape().with_leading(count));
}

void copy_rows(const Tensor& rows, const Tensor& matrix, Index first) {
  dispatch_floating("jacobian", matrix.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::copy_n(rows.data<T>(), rows.size(), matrix.output_data<T>() + first * matrix.dim(1));
  });
}

}  // namespace

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
  Tensor matrix = Tensor::uninitialized({rows(), columns()}, from_.dtype(), from_.value().device());
  for (Index first = 0; first < rows(); first += kCotangentsAtOnce) {
    const Index count = std::min(kCotangentsAtOnce, rows() - first);
    copy_rows(apply_transposed(one_hot_cotangents(to_.value(), first, count)), matrix, first);
  }
  return dense_ = matrix;
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
