#include <jnorm/core/linear_algebra.hpp>

#include <algorithm>
#include <array>
#include <stdexcept>

#include <xtensor-blas/xlinalg.hpp>
#include <xtensor/xtensor.hpp>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/kernels.hpp>

namespace jnorm {

namespace {

void expect_finite_matrix(const char* operation, const Tensor& a) {
  expect(a.defined() && a.rank() == 2, "{}: expected a matrix, got {}", operation,
         a.defined() ? to_string(a.shape()) : "an undefined tensor");
  Index bad = -1;
  a.device().kernels().first_non_finite(a, bad);
  // LAPACK would return garbage or not return at all.
  if (bad >= 0) {
    fail(ErrorKind::non_finite, "{}: element [{}, {}] of the {} matrix is not finite", operation, bad / a.dim(1),
         bad % a.dim(1), a.shape());
  }
}

enum class Vectors { none, both };

// LAPACK thinks in columns, and the rows of a [m, n] are the columns of a^T = v s u^T: of that one it returns v, s and
// u^T, whose columns are the rows of vt, s and u. So nothing has to be transposed. Without vectors it is many times
// faster.
template <class T>
auto decompose_transposed(const char* operation, const Tensor& a, Vectors vectors) {
  const std::array shape{static_cast<std::size_t>(a.dim(1)), static_cast<std::size_t>(a.dim(0))};
  xt::xtensor<T, 2, xt::layout_type::column_major> transposed(shape);
  std::copy_n(a.data<T>(), a.size(), transposed.data());
  try {
    return xt::linalg::svd(transposed, false, vectors == Vectors::both);
  } catch (const std::runtime_error& error) {
    fail(ErrorKind::check, "{}: no convergence on the {} matrix ({})", operation, a.shape(), error.what());
  }
}

template <class T>
Tensor copy_of(const Shape& shape, const T* values) {
  Tensor result = Tensor::uninitialized(shape, dtype_of<T>);
  std::copy_n(values, shape.size(), result.output_data<T>());
  return result;
}

}  // namespace

Tensor singular_values(const Tensor& a) {
  expect_finite_matrix("singular_values", a);
  const Index count = std::min(a.dim(0), a.dim(1));
  if (count == 0) return Tensor::uninitialized({0}, a.dtype());
  return dispatch_wide("singular_values", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto [u, s, vt] = decompose_transposed<T>("singular_values", a, Vectors::none);
    return copy_of({count}, s.data());
  });
}

Svd svd(const Tensor& a) {
  expect_finite_matrix("svd", a);
  const Index m = a.dim(0), n = a.dim(1), count = std::min(m, n);
  const Shape u_shape{m, count}, s_shape{count}, vt_shape{count, n};
  if (count == 0) {
    return {Tensor::uninitialized(u_shape, a.dtype()), Tensor::uninitialized(s_shape, a.dtype()),
            Tensor::uninitialized(vt_shape, a.dtype())};
  }
  return dispatch_wide("svd", a.dtype(), [&](auto tag) -> Svd {
    using T = typename decltype(tag)::type;
    const auto [v, s, ut] = decompose_transposed<T>("svd", a, Vectors::both);
    return {copy_of(u_shape, ut.data()), copy_of(s_shape, s.data()), copy_of(vt_shape, v.data())};
  });
}

}  // namespace jnorm
