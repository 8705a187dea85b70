// Dynamic tanh over rows. Derivation: autograd/ops/dynamic_tanh.md.
//
//   [DYT.1]  y = gamma t + beta,  t = tanh(alpha x)
//   [DYT.2]  dx = gamma alpha sech(alpha x)^2 dy
//   [DYT.3]  dgamma = sum over rows of dy t     dalpha = sum over all elements of gamma dy x sech(alpha x)^2
//
// sech^2 isn't taken as 1 - t^2, which is 0 in float32 from |alpha x| = 10 on.

#include <jnorm/core/dtype.hpp>
#include <jnorm/core/kernels/column_sums.hpp>
#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/kernels/rows.hpp>

namespace jnorm::cpu {

namespace {

template <class T>
Batch<T> sech_squared(const Batch<T>& a) {
  const Batch<T> e = xsimd::exp(xsimd::abs(a) * Batch<T>(T(-2))), one_plus_e = Batch<T>(T(1)) + e;
  return Batch<T>(T(4)) * e / (one_plus_e * one_plus_e);
}

}  // namespace

void dynamic_tanh(const Tensor& x, const Tensor& alpha, const Tensor& gamma, const Tensor& beta, const Tensor& y) {
  dispatch_wide("dynamic_tanh", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Index length = x.row_length();
    const Tensor scale = or_constant(gamma, length, T(1)), offset = or_constant(beta, length, T(0));
    const Rows in = rows_of<T>(x), scales = rows_of<T>(scale), offsets = rows_of<T>(offset);
    const Rows out = output_rows<T>(y);
    const Batch<T> steepness(*alpha.data<T>());
    for_each_row(x, [&](Index r) {
      for_each_batch<T>(0, length, [=, from = in[r], to = out[r]](auto at) {
        const Batch<T> t = xsimd::tanh(steepness * at.load(from));
        at.store(to, xsimd::fma(t, at.load(scales[0]), at.load(offsets[0])));  // [DYT.1]
      });
    });
  });
}

void dynamic_tanh_dx(const Tensor& dy, const Tensor& x, const Tensor& alpha, const Tensor& gamma,
                     const Destination& dx) {
  if (!dx.wanted()) return;
  dispatch_wide("dynamic_tanh_dx", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Index length = x.row_length();
    const Tensor scale = or_constant(gamma, length, T(1));
    const Rows in = rows_of<T>(x), cotangents = rows_of<T>(dy), scales = rows_of<T>(scale);
    const Rows out = output_rows<T>(dx.tensor);
    const Batch<T> steepness(*alpha.data<T>());
    for_each_row_of_copies(copies_of(x, dy), x, [&](Index i, Index r) {
      for_each_batch<T>(0, length, [=, from = in[r], g = cotangents[i], to = out[i], add = dx.add](auto at) {
        const Batch<T> slope = steepness * sech_squared(steepness * at.load(from));
        put(at, to, at.load(scales[0]) * slope * at.load(g), add);  // [DYT.2]
      });
    });
  });
}

void dynamic_tanh_dparameters(const Tensor& dy, const Tensor& x, const Tensor& alpha, const Tensor& gamma,
                              const Destination& dalpha, const Destination& dgamma) {
  dispatch_wide("dynamic_tanh_dparameters", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Index length = x.row_length(), rows = x.rows();
    const Tensor scale = or_constant(gamma, length, T(1));
    const Rows in = rows_of<T>(x), cotangents = rows_of<T>(dy), scales = rows_of<T>(scale);
    const Batch<T> steepness(*alpha.data<T>());
    if (dalpha.wanted()) {
      copy_sums<T>(copies_of(x, dy), x, dalpha, [&](Index i, Index r) {
        return row_sums<1, T>(length, [=, from = in[r], g = cotangents[i]](auto at) {
          const Batch<T> element = at.load(from);
          return Batches<T, 1>{at.load(scales[0]) * at.load(g) * element *
                               sech_squared(steepness * element)};  // [DYT.3]
        })[0];
      });
    }
    if (dgamma.wanted()) {
      column_sums<T, 1>(rows, length, {dgamma}, [&](Index copy, Index r) {
        return [=, from = in[r], g = cotangents[copy * rows + r]](auto at) {
          return Batches<T, 1>{at.load(g) * xsimd::tanh(steepness * at.load(from))};  // [DYT.3]
        };
      });
    }
  });
}

}  // namespace jnorm::cpu
