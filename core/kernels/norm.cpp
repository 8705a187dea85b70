// LayerNorm and RMSNorm over rows. Derivations: autograd/ops/layer_norm.md and rms_norm.md.
//
//   [LN.1]   x_hat = (x - mean) rstd, rstd = 1/sqrt(var + eps)     y = gamma x_hat + beta
//   [LN.2]   dx = (u - mean(u) - x_hat mean(u x_hat)) rstd,        u = gamma dy
//   [LN.3]   dgamma = sum over rows of dy x_hat                    dbeta = sum over rows of dy
//   [RMS.1]  x_hat = x rstd, rstd = 1/sqrt(mean(x^2) + eps)        y = gamma x_hat
//   [RMS.2]  dx = (u - x_hat mean(u x_hat)) rstd,                  u = gamma dy
//   [RMS.3]  dgamma = sum over rows of dy x_hat
//
// Statistics are taken in two passes in the row's own type. Where a sum of squares leaves that type's range, in float32
// at |x| of 1e19 or, if eps is 0 too, of 1e-16, they are taken again with long double's exponents: rows of 1e25 are
// normalized, and the eps of other rows stays what it is. What is left undefined is 0/0: a row without variance, or a
// zero row of RMSNorm, gives NaN if eps is 0. x - mean must not overflow: |x| has to stay below half of the type's
// largest value.

#include <cmath>

#include <jnorm/core/dtype.hpp>
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

template <class T>
struct RmsNormRow {
  const T* x;
  T rstd;

  template <class Place>
  Batch<T> x_hat(const Place& at) const {
    return at.load(x) * Batch<T>(rstd);
  }
};

template <class T>
RmsNormRow<T> wide_rms_norm_row(const T* x, Index length, double eps) {
  long double squares = 0;
  for (Index i = 0; i < length; ++i) squares += static_cast<long double>(x[i]) * x[i];
  return {x, static_cast<T>(1 / std::sqrt(squares / length + eps))};
}

template <class T>
RmsNormRow<T> rms_norm_row(const T* x, Index length, double eps) {
  const auto sums = row_sums<1, T>(length, [=](auto at) {
    const Batch<T> element = at.load(x);
    return Batches<T, 1>{element * element};
  });
  const double mean_square = sums[0] / static_cast<double>(length);
  if (!in_range<T>(mean_square + eps)) [[unlikely]]
    return wide_rms_norm_row(x, length, eps);
  return {x, static_cast<T>(1.0 / std::sqrt(mean_square + eps))};
}

template <class T>
void rms_norm_dx_row(const T* dy, const RmsNormRow<T>& row, const T* gamma, Index length, T* dx, bool add) {
  const auto sums =
      row_sums<1, T>(length, [=](auto at) { return Batches<T, 1>{at.load(gamma) * at.load(dy) * row.x_hat(at)}; });
  const Batch<T> minus_mean_u_x_hat(-sums[0] / static_cast<T>(length)), rstd(row.rstd);
  for_each_batch<T>(0, length, [=](auto at) {
    const Batch<T> u = at.load(gamma) * at.load(dy);
    put(at, dx, xsimd::fma(row.x_hat(at), minus_mean_u_x_hat, u) * rstd, add);  // [RMS.2]
  });
}

// An absent gamma or beta, as a row of its neutral value.
template <class T>
Tensor or_constant(const Tensor& parameter, Index length, T value) {
  if (parameter.defined()) return parameter;
  Tensor row = Tensor::uninitialized({length}, dtype_of<T>);
  std::fill_n(row.output_data<T>(), length, value);
  return row;
}

// Adds the terms of several rows to N rows of totals. A row's terms are a function of the place in the row.
template <class T, std::size_t N, class... RowTerms>
void add_rows(Rows<T> totals, const RowTerms&... terms) {
  for_each_batch<T>(0, totals.length, [=](auto at) {
    Batches<T, N> sums;
    unrolled<N>([&](std::size_t n) { sums[n] = at.load(totals[static_cast<Index>(n)]); });
    (add_to<T, N>(sums, terms(at)), ...);
    unrolled<N>([&](std::size_t n) { at.store(totals[static_cast<Index>(n)], sums[n]); });
  });
}

// Column sums of N matrices that are never stored: results[n][k, :] is the sum over rows r of term n of row_terms(k,
// r). The rows are cut into parts that follow from the shape alone, and the parts' sums are added in order.
template <class T, std::size_t N, class RowTerms>
void column_sums(Index rows, Index length, const std::array<Destination, N>& results, const RowTerms& row_terms) {
  if (length == 0) return;
  constexpr Index part_rows = 256, width = static_cast<Index>(N);
  const Index parts = (rows + part_rows - 1) / part_rows;
  const Index copies = results[0].tensor.size() / length;
  const Tensor partial = Tensor::uninitialized({copies * parts * width, length}, dtype_of<T>);
  const Rows<T> totals = output_rows<T>(partial);
  parallel_for(copies * parts, grain_for(part_rows * length), [&](Index begin, Index end) {
    for (Index part = begin; part < end; ++part) {
      const Rows<T> own{totals[part * width], length};
      std::fill_n(own.data, width * length, T(0));
      const Index copy = part / parts;
      Index r = part % parts * part_rows;
      const Index last = std::min(rows, r + part_rows);
      for (; r + 4 <= last; r += 4) {  // four rows share the loads and stores of the totals
        add_rows<T, N>(own, row_terms(copy, r), row_terms(copy, r + 1), row_terms(copy, r + 2), row_terms(copy, r + 3));
      }
      for (; r < last; ++r) add_rows<T, N>(own, row_terms(copy, r));
    }
  });
  for (Index n = 0; n < width; ++n) {
    const auto& [result, add] = results[static_cast<std::size_t>(n)];
    for (Index copy = 0; copy < copies; ++copy) {
      T* const row = result.template output_data<T>() + copy * length;
      if (!add) std::fill_n(row, length, T(0));
      for (Index part = copy * parts; part < (copy + 1) * parts; ++part) {
        const T* const sums = totals[part * width + n];
        for (Index j = 0; j < length; ++j) row[j] += sums[j];
      }
    }
  }
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

void layer_norm_dx(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                   const Destination& dx) {
  if (!dx.wanted()) return;
  dispatch_wide("layer_norm_dx", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
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
  });
}

void layer_norm_dparameters(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                            const Destination& dgamma, const Destination& dbeta) {
  dispatch_wide("layer_norm_dparameters", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
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
  });
}

void rms_norm(const Tensor& x, const Tensor& gamma, double eps, const Tensor& y, const Tensor& rstd) {
  dispatch_wide("rms_norm", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Index length = x.row_length();
    const Tensor scale = or_constant(gamma, length, T(1));
    const Rows in = rows_of<T>(x), scales = rows_of<T>(scale);
    const Rows out = output_rows<T>(y);
    T* const rstds = rstd.output_data<T>();
    for_each_row(x, [&](Index r) {
      const RmsNormRow<T> row = rms_norm_row(in[r], length, eps);
      rstds[r] = row.rstd;
      for_each_batch<T>(0, length, [=, to = out[r], g = scales[0]](auto at) {
        at.store(to, row.x_hat(at) * at.load(g));  // [RMS.1]
      });
    });
  });
}

void rms_norm_dx(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& rstd, const Destination& dx) {
  if (!dx.wanted()) return;
  dispatch_wide("rms_norm_dx", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Index length = x.row_length();
    const Tensor scale = or_constant(gamma, length, T(1));
    const Rows in = rows_of<T>(x), cotangents = rows_of<T>(dy), scales = rows_of<T>(scale);
    const Rows out = output_rows<T>(dx.tensor);
    const T* const rstds = rstd.data<T>();
    for_each_row_of_copies(copies_of(x, dy), x, [&](Index i, Index r) {
      rms_norm_dx_row(cotangents[i], {in[r], rstds[r]}, scales[0], length, out[i], dx.add);
    });
  });
}

void rms_norm_dgamma(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Destination& dgamma) {
  if (!dgamma.wanted()) return;
  dispatch_wide("rms_norm_dgamma", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Index length = x.row_length(), rows = x.rows();
    const Rows in = rows_of<T>(x), cotangents = rows_of<T>(dy);
    const T* const rstds = rstd.data<T>();
    column_sums<T, 1>(rows, length, {dgamma}, [&](Index copy, Index r) {
      return [g = cotangents[copy * rows + r], row = RmsNormRow<T>{in[r], rstds[r]}](auto at) {
        return Batches<T, 1>{at.load(g) * row.x_hat(at)};  // [RMS.3]
      };
    });
  });
}

}  // namespace jnorm::cpu
