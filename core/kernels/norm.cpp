// LayerNorm, RMSNorm and ScaleNorm over rows. Derivations: autograd/ops/layer_norm.md, rms_norm.md and scale_norm.md.
//
//   [LN.1]   x_hat = (x - mean) rstd, rstd = 1/sqrt(var + eps)     y = gamma x_hat + beta
//   [LN.2]   dx = (u - mean(u) - x_hat mean(u x_hat)) rstd,        u = gamma dy
//   [LN.3]   dgamma = sum over rows of dy x_hat                    dbeta = sum over rows of dy
//   [RMS.1]  x_hat = x rstd, rstd = 1/sqrt(mean(x^2) + eps)        y = gamma x_hat
//   [RMS.2]  dx = (u - x_hat mean(u x_hat)) rstd,                  u = gamma dy
//   [RMS.3]  dgamma = sum over rows of dy x_hat
//   [SN.1]   x_hat = x rnorm, rnorm = 1/sqrt(sum(x^2) + eps)       y = g x_hat
//   [SN.2]   dx = g (dy - x_hat sum(dy x_hat)) rnorm
//   [SN.3]   dg = sum over all elements of dy x_hat
//
// Statistics are taken in two passes in the row's own type. Where a sum of squares leaves that type's range, in float32
// at |x| of 1e19 or, if eps is 0 too, of 1e-16, they are taken again with long double's exponents: rows of 1e25 are
// normalized, and the eps of other rows stays what it is. What is left undefined is 0/0: a row without variance, or a
// zero row of RMSNorm, gives NaN if eps is 0, while ScaleNorm's convention is 0. x - mean must not overflow: |x| has to
// stay below half of the type's largest value.

#include <cmath>

#include <jnorm/core/dtype.hpp>
#include <jnorm/core/kernels/column_sums.hpp>
#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/kernels/rows.hpp>
#include <jnorm/core/parallel.hpp>

namespace jnorm::cpu {

namespace {

// Whether a variance plus eps, computed in T, has kept its precision. False for NaN.
template <class T>
bool in_range(double square) {
  using Limits = std::numeric_limits<T>;
  return square >= double{Limits::min()} / double{Limits::epsilon()} && square <= double{Limits::max()};
}

// One row's part in x_hat = (x - mean) rstd + shift. The mean is rounded to T, which costs a row of 10,000 +- 0.005 in
// float32 the first digit of x_hat; shift is -rstd times the mean of what is left.
template <class T>
struct LayerNormRow {
  const T* x;
  T mean, rstd, shift;

  template <class Place>
  Batch<T> x_hat(const Place& at) const {
    return xsimd::fma(at.load(x) - Batch<T>(mean), Batch<T>(rstd), Batch<T>(shift));
  }
};

template <class T>
LayerNormRow<T> wide_layer_norm_row(const T* x, Index length, double eps) {
  long double sum = 0, squares = 0;
  for (Index i = 0; i < length; ++i) sum += x[i];
  const long double mean = sum / length;
  for (Index i = 0; i < length; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const long double rstd = 1 / std::sqrt(squares / length + eps);
  const T rounded = static_cast<T>(mean);
  return {x, rounded, static_cast<T>(rstd), static_cast<T>((rounded - mean) * rstd)};
}

template <class T>
LayerNormRow<T> layer_norm_row(const T* x, Index length, double eps) {
  const double per_element = 1.0 / static_cast<double>(length);
  const auto [sum] = row_sums<1, T>(length, [=](auto at) { return Batches<T, 1>{at.load(x)}; });
  const T pivot = static_cast<T>(sum * per_element);  // nearly the mean
  const auto [rest, squares] = row_sums<2, T>(length, [=](auto at) {
    const Batch<T> centred = at.load(x) - Batch<T>(pivot);
    return Batches<T, 2>{centred, centred * centred};
  });
  const double correction = rest * per_element;  // the mean is pivot + correction
  const double variance = squares * per_element - correction * correction;
  if (!in_range<T>(variance + eps)) [[unlikely]]
    return wide_layer_norm_row(x, length, eps);
  const double rstd = 1.0 / std::sqrt(variance + eps);
  const T mean = static_cast<T>(pivot + correction);
  return {x, mean, static_cast<T>(rstd), static_cast<T>(((mean - pivot) - correction) * rstd)};
}

// The row as backward sees it: the saved mean is rounded, and its shift is found again. Where the mean is of the size
// of the row's deviations, the shift is a rounding error like any other, and 0 will do.
template <class T>
LayerNormRow<T> saved_layer_norm_row(const T* x, Index length, T mean, T rstd) {
  const LayerNormRow<T> unshifted{x, mean, rstd, T(0)};
  if (std::abs(mean) * rstd < T(4)) return unshifted;
  const auto sums = row_sums<1, T>(length, [=](auto at) { return Batches<T, 1>{unshifted.x_hat(at)}; });
  return {x, mean, rstd, -sums[0] / static_cast<T>(length)};
}

template <class T>
void layer_norm_dx_row(const T* dy, const LayerNormRow<T>& row, const T* gamma, Index length, T* dx, bool add) {
  const T per_element = T(1) / static_cast<T>(length);
  const auto sums = row_sums<2, T>(length, [=](auto at) {
    const Batch<T> u = at.load(gamma) * at.load(dy);
    return Batches<T, 2>{u, u * row.x_hat(at)};
  });
  const Batch<T> mean_u(sums[0] * per_element), minus_mean_u_x_hat(-sums[1] * per_element), rstd(row.rstd);
  for_each_batch<T>(0, length, [=](auto at) {
    const Batch<T> centred = at.load(gamma) * at.load(dy) - mean_u;
    put(at, dx, xsimd::fma(row.x_hat(at), minus_mean_u_x_hat, centred) * rstd, add);  // [LN.2]
  });
}

// RMSNorm and ScaleNorm divide a row by the root of its squares: of their mean, or of their sum.
struct RootNorm {
  double eps;
  double count;     // what the sum of squares is divided by: the row's length, or 1
  double zero_row;  // 1/root of a row whose squares and eps are 0
};
RootNorm rms_norm_of(const Tensor& x, double eps) {
  return {eps, static_cast<double>(x.row_length()), std::numeric_limits<double>::infinity()};
}
RootNorm scale_norm_of(double eps) { return {eps, 1.0, 0.0}; }

template <class T>
struct RootNormRow {
  const T* x;
  T rroot;

  template <class Place>
  Batch<T> x_hat(const Place& at) const {
    return at.load(x) * Batch<T>(rroot);
  }
};

template <class T>
RootNormRow<T> wide_root_norm_row(const T* x, Index length, const RootNorm& norm) {
  long double squares = 0;
  for (Index i = 0; i < length; ++i) squares += static_cast<long double>(x[i]) * x[i];
  const long double square = squares / norm.count + norm.eps;
  return {x, static_cast<T>(square == 0 ? norm.zero_row : 1 / std::sqrt(square))};
}

template <class T>
RootNormRow<T> root_norm_row(const T* x, Index length, const RootNorm& norm) {
  const auto sums = row_sums<1, T>(length, [=](auto at) {
    const Batch<T> element = at.load(x);
    return Batches<T, 1>{element * element};
  });
  const double square = sums[0] / norm.count;
  if (!in_range<T>(square + norm.eps)) [[unlikely]]
    return wide_root_norm_row(x, length, norm);
  return {x, static_cast<T>(1.0 / std::sqrt(square + norm.eps))};
}

template <class T>
void root_norm_dx_row(const T* dy, const RootNormRow<T>& row, const T* gamma, Index length, double count, T* dx,
                      bool add) {
  const auto sums =
      row_sums<1, T>(length, [=](auto at) { return Batches<T, 1>{at.load(gamma) * at.load(dy) * row.x_hat(at)}; });
  const Batch<T> minus_mean_u_x_hat(-sums[0] / static_cast<T>(count)), rroot(row.rroot);
  for_each_batch<T>(0, length, [=](auto at) {
    const Batch<T> u = at.load(gamma) * at.load(dy);
    put(at, dx, xsimd::fma(row.x_hat(at), minus_mean_u_x_hat, u) * rroot, add);  // [RMS.2] [SN.2]
  });
}

// scale [H]: gamma, or ScaleNorm's g for every element.
template <class T>
void root_norm(const Tensor& x, const Tensor& scale, const RootNorm& norm, const Tensor& y, const Tensor& rroot) {
  const Index length = x.row_length();
  const Rows in = rows_of<T>(x), scales = rows_of<T>(scale);
  const Rows out = output_rows<T>(y);
  T* const rroots = rroot.output_data<T>();
  for_each_row(x, [&](Index r) {
    const RootNormRow<T> row = root_norm_row(in[r], length, norm);
    rroots[r] = row.rroot;
    for_each_batch<T>(0, length, [=, to = out[r], g = scales[0]](auto at) {
      at.store(to, row.x_hat(at) * at.load(g));  // [RMS.1] [SN.1]
    });
  });
}

template <class T>
void root_norm_dx(const Tensor& dy, const Tensor& x, const Tensor& scale, const Tensor& rroot, double count,
                  const Destination& dx) {
  const Rows in = rows_of<T>(x), cotangents = rows_of<T>(dy), scales = rows_of<T>(scale);
  const Rows out = output_rows<T>(dx.tensor);
  const T* const rroots = rroot.data<T>();
  for_each_row_of_copies(copies_of(x, dy), x, [&](Index i, Index r) {
    root_norm_dx_row(cotangents[i], {in[r], rroots[r]}, scales[0], x.row_length(), count, out[i], dx.add);
  });
}

template <class T>
void layer_norm_dx(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                   const Destination& dx) {
  if (!dx.wanted()) return;
  const Index length = x.row_length();
  const Tensor scale = or_constant(gamma, length, T(1));
  const Rows in = rows_of<T>(x), cotangents = rows_of<T>(dy), scales = rows_of<T>(scale);
  const Rows out = output_rows<T>(dx.tensor);
  const T* const means = mean.data<T>();
  const T* const rstds = rstd.data<T>();
  for_each_row_of_copies(copies_of(x, dy), x, [&](Index i, Index r) {
    const LayerNormRow<T> row = saved_layer_norm_row(in[r], length, means[r], rstds[r]);
    layer_norm_dx_row(cotangents[i], row, scales[0], length, out[i], dx.add);
  });
}

template <class T>
void layer_norm_dparameters(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                            const Destination& dgamma, const Destination& dbeta) {
  const Index length = x.row_length(), rows = x.rows();
  const Rows in = rows_of<T>(x), cotangents = rows_of<T>(dy);
  const T* const means = mean.data<T>();
  const T* const rstds = rstd.data<T>();
  const auto saved_row = [&](Index r) { return saved_layer_norm_row(in[r], length, means[r], rstds[r]); };
  if (dgamma.wanted() && dbeta.wanted()) {
    column_sums<T, 2>(rows, length, {dgamma, dbeta}, [&](Index copy, Index r) {
      return [g = cotangents[copy * rows + r], row = saved_row(r)](auto at) {
        const Batch<T> element = at.load(g);
        return Batches<T, 2>{element * row.x_hat(at), element};  // [LN.3]
      };
    });
  } else if (dgamma.wanted()) {
    column_sums<T, 1>(rows, length, {dgamma}, [&](Index copy, Index r) {
      return [g = cotangents[copy * rows + r], row = saved_row(r)](auto at) {
        return Batches<T, 1>{at.load(g) * row.x_hat(at)};  // [LN.3]
      };
    });
  } else if (dbeta.wanted()) {
    column_sums<T, 1>(rows, length, {dbeta}, [&](Index copy, Index r) {
      return [g = cotangents[copy * rows + r]](auto at) { return Batches<T, 1>{at.load(g)}; };  // [LN.3]
    });
  }
}

template <class T>
void rms_norm_dx(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& rstd, const Destination& dx) {
  if (!dx.wanted()) return;
  const Index length = x.row_length();
  root_norm_dx<T>(dy, x, or_constant(gamma, length, T(1)), rstd, static_cast<double>(length), dx);
}

template <class T>
void rms_norm_dgamma(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Destination& dgamma) {
  if (!dgamma.wanted()) return;
  const Index length = x.row_length(), rows = x.rows();
  const Rows in = rows_of<T>(x), cotangents = rows_of<T>(dy);
  const T* const rstds = rstd.data<T>();
  column_sums<T, 1>(rows, length, {dgamma}, [&](Index copy, Index r) {
    return [g = cotangents[copy * rows + r], row = RootNormRow<T>{in[r], rstds[r]}](auto at) {
      return Batches<T, 1>{at.load(g) * row.x_hat(at)};  // [RMS.3]
    };
  });
}

// ScaleNorm's g as a row; 1 if it is absent.
template <class T>
Tensor gain_row(const Tensor& g, Index length) {
  return constant_row(length, g.defined() ? *g.data<T>() : T(1));
}

}  // namespace

void layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps, const Tensor& y,
                const Tensor& mean, const Tensor& rstd) {
  dispatch_wide("layer_norm", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Index length = x.row_length();
    const Tensor scale = or_constant(gamma, length, T(1)), offset = or_constant(beta, length, T(0));
    const Rows in = rows_of<T>(x), scales = rows_of<T>(scale), offsets = rows_of<T>(offset);
    const Rows out = output_rows<T>(y);
    T* const means = mean.output_data<T>();
    T* const rstds = rstd.output_data<T>();
    for_each_row(x, [&](Index r) {
      const LayerNormRow<T> row = layer_norm_row(in[r], length, eps);
      means[r] = row.mean;
      rstds[r] = row.rstd;
      for_each_batch<T>(0, length, [=, to = out[r], g = scales[0], b = offsets[0]](auto at) {
        at.store(to, xsimd::fma(row.x_hat(at), at.load(g), at.load(b)));  // [LN.1]
      });
    });
  });
}

void layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                         const Destination& dx, const Destination& dgamma, const Destination& dbeta) {
  dispatch_wide("layer_norm_backward", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    layer_norm_dx<T>(dy, x, gamma, mean, rstd, dx);
    layer_norm_dparameters<T>(dy, x, mean, rstd, dgamma, dbeta);
  });
}

void rms_norm(const Tensor& x, const Tensor& gamma, double eps, const Tensor& y, const Tensor& rstd) {
  dispatch_wide("rms_norm", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    root_norm<T>(x, or_constant(gamma, x.row_length(), T(1)), rms_norm_of(x, eps), y, rstd);
  });
}

void rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& rstd,
                       const Destination& dx, const Destination& dgamma) {
  dispatch_wide("rms_norm_backward", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    rms_norm_dx<T>(dy, x, gamma, rstd, dx);
    rms_norm_dgamma<T>(dy, x, rstd, dgamma);
  });
}

void scale_norm(const Tensor& x, const Tensor& g, double eps, const Tensor& y, const Tensor& rnorm) {
  dispatch_wide("scale_norm", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    root_norm<T>(x, gain_row<T>(g, x.row_length()), scale_norm_of(eps), y, rnorm);
  });
}

void scale_norm_dx(const Tensor& dy, const Tensor& x, const Tensor& g, const Tensor& rnorm, const Destination& dx) {
  if (!dx.wanted()) return;
  dispatch_wide("scale_norm_dx", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    root_norm_dx<T>(dy, x, gain_row<T>(g, x.row_length()), rnorm, 1.0, dx);
  });
}

void scale_norm_dg(const Tensor& dy, const Tensor& x, const Tensor& rnorm, const Destination& dg) {
  if (!dg.wanted()) return;
  dispatch_wide("scale_norm_dg", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Rows in = rows_of<T>(x), cotangents = rows_of<T>(dy);
    const T* const rnorms = rnorm.data<T>();
    copy_sums<T>(copies_of(x, dy), x, dg, [&](Index i, Index r) {
      const RootNormRow<T> row{in[r], rnorms[r]};
      return row_sums<1, T>(x.row_length(), [=, g = cotangents[i]](auto at) {
        return Batches<T, 1>{at.load(g) * row.x_hat(at)};  // [SN.3]
      })[0];
    });
  });
}

}  // namespace jnorm::cpu
