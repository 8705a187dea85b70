// Selection by a mask of 0 and 1, and products that leave masked pairs out: what is masked reaches no result, even if
// it is NaN, for which multiplying by 0 would not do.

#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/parallel.hpp>

namespace jnorm::cpu {

namespace {

constexpr Index kGrain = 32768;

// One matrix of a batch: the last two axes, row-major. With fewer batches than asked for, they repeat.
template <class T>
const T* matrix(const Tensor& x, Index batch) {
  const Index size = x.dim(-2) * x.dim(-1);
  return x.data<T>() + batch * size % x.size();
}

// y += op(a) b over the pairs whose mask isn't 0. a and mask [m, k], b [k or m, n], y [m or k, n].
template <class T>
void add_unmasked_pairs(const T* a, bool transpose_a, const T* b, const std::int32_t* mask, Index m, Index k, Index n,
                        T* y) {
  for (Index i = 0; i < m; ++i) {
    for (Index j = 0; j < k; ++j) {
      if (mask[i * k + j] == 0) continue;
      const T weight = a[i * k + j];
      const T* const from = b + (transpose_a ? i : j) * n;
      T* const to = y + (transpose_a ? j : i) * n;
      for (Index column = 0; column < n; ++column) to[column] += weight * from[column];
    }
  }
}

}  // namespace

void select(const Tensor& x, const Tensor& mask, const Tensor& y) {
  dispatch_wide("select", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const in = x.data<T>();
    const std::int32_t* const keep = mask.data<std::int32_t>();
    T* const out = y.output_data<T>();
    parallel_for(x.size(), kGrain, [&](Index begin, Index end) {
      Index m = begin % mask.size();
      for (Index i = begin; i < end; ++i) {
        out[i] = keep[m] != 0 ? in[i] : T(0);
        if (++m == mask.size()) m = 0;
      }
    });
  });
}

void masked_matmul(const Tensor& a, bool transpose_a, const Tensor& b, const Tensor& mask, const Tensor& y) {
  if (y.size() == 0) return;
  if (all_finite(b)) {  // then zeros in a leave out as well
    const Tensor kept = Tensor::uninitialized(a.shape(), a.dtype());
    select(a, mask, kept);
    return matmul(kept, transpose_a, b, false, {.tensor = y});
  }
  fill(y, 0.0);
  dispatch_wide("masked_matmul", y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Index m = a.dim(-2), k = a.dim(-1), n = b.dim(-1);
    const Index size = y.dim(-2) * n;
    parallel_for(y.size() / size, grain_for(m * k * n), [&](Index begin, Index end) {
      for (Index batch = begin; batch < end; ++batch) {
        add_unmasked_pairs(matrix<T>(a, batch), transpose_a, matrix<T>(b, batch), matrix<std::int32_t>(mask, batch), m,
                           k, n, y.output_data<T>() + batch * size);
      }
    });
  });
}

}  // namespace jnorm::cpu
