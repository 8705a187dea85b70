// LayerNorm, RMSNorm and ScaleNorm, backward: see norm_backward_kernels.cuh.

#include <jnorm/cuda/column_parts.cuh>
#include <jnorm/cuda/kernels.hpp>
#include <jnorm/cuda/launch.cuh>
#include <jnorm/cuda/norm_backward_kernels.cuh>

namespace jnorm::cuda {

namespace {

// What beside dx is wanted, and of how many copies.
struct Wanted {
  Destination dgamma = {}, dbeta = {};  // [K, H]
  Tensor row_sums = {};                 // [K, R]
  Index copies = 1;
  bool columns() const { return dgamma.wanted() || dbeta.wanted(); }
};

// Sums over the rows of streamed rows' columns.
template <bool Centred, int N, class T>
void launch_columns(const char* operation, Context& context, Index copies, const NormBackward<T>& norm,
                    const Wide<T>* shift) {
  const Index tiles = ceil_divide(norm.length / N, kColumnThreads);
  const LaunchConfig config{.blocks_x = tiles * norm.parts * copies, .threads = kColumnThreads};
  launch(operation, context, config, norm_backward_columns<Centred, T, N>, norm, shift, tiles);
}

template <bool Centred, int N, class T>
void launch_backward(const char* operation, const Tensor& x, NormBackward<T>& norm, const Wanted& wanted) {
  Context& context = context_of(x);
  constexpr int sums = kColumnSums<Centred>;
  const NormBackwardConfig config = norm_backward_config({.rows = norm.rows,
                                                          .length = norm.length,
                                                          .copies = wanted.copies,
                                                          .pack = N,
                                                          .element_bytes = sizeof(T),
                                                          .wide_bytes = sizeof(Wide<T>),
                                                          .column_sums = wanted.columns() ? sums : 0},
                                                         context.limits());
  const DType wide = statistics_dtype(x.dtype());
  const auto scratch = [&](Index size) { return Tensor::uninitialized({size}, wide, x.device()); };
  norm.parts = config.parts;
  Tensor partial, shift;
  if (wanted.columns()) partial = scratch(wanted.copies * config.parts * sums * norm.length);
  norm.partial = output<Wide<T>>(partial);
  with_row_team<norm_backward_choices(N, sizeof(T))>(config.plan, [&]<class Team, int V>() {
    if constexpr (V == 0) {
      if (Centred && wanted.columns()) shift = scratch(norm.rows);
      auto* const shifts = output<Wide<T>>(shift);
      launch(operation, context, config.launch, norm_backward_streamed<Centred, Team, T, N>, norm, shifts);
      if (wanted.columns()) launch_columns<Centred, N>(operation, context, wanted.copies, norm, shifts);
    } else {
      launch(operation, context, config.launch, norm_backward_held<Centred, Team, T, N, V>, norm);
    }
  });
  if (!wanted.columns()) return;
  launch_column_parts(operation, context,
                      ColumnGradients<T, Wide<T>>{.partial = norm.partial,
                                                  .parts = config.parts,
                                                  .length = norm.length,
                                                  .sums = sums,
                                                  .first = output<T>(wanted.dgamma.tensor),
                                                  .second = output<T>(wanted.dbeta.tensor),
                                                  .add_to_first = wanted.dgamma.add,
                                                  .add_to_second = wanted.dbeta.add},
                      wanted.copies);
}

template <bool Centred>
void backward(const char* operation, const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& gain,
              const Tensor& mean, const Tensor& rstd, double share, const Destination& dx, Wanted wanted) {
  if (x.size() == 0 || dy.size() == 0) {
    leave_zero(wanted.dgamma);
    leave_zero(wanted.dbeta);
    return;
  }
  if (!dx.wanted() && !wanted.columns() && !wanted.row_sums.defined()) return;
  wanted.copies = dy.size() / x.size();
  dispatch_device(operation, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    NormBackward<T> norm{.dy = input<T>(dy),
                         .x = input<T>(x),
                         .gamma = input<T>(gamma),
                         .gain = input<T>(gain),
                         .mean = input<Wide<T>>(mean),
                         .rstd = input<Wide<T>>(rstd),
                         .dx = output<T>(dx.tensor),
                         .add = dx.add,
                         .partial = nullptr,
                         .row_sums = output<Wide<T>>(wanted.row_sums),
                         .rows = x.rows(),
                         .length = x.row_length(),
                         .parts = 1,
                         .share = share};
    constexpr int pack = kRowPack<T>;
    const bool fits = packs_fit<pack>(norm.x, norm.length) && packs_fit<pack>(norm.dy, norm.length) &&
                      packs_fit<pack>(norm.gamma, norm.length) && packs_fit<pack>(norm.dx, norm.length);
    with_row_pack<T>(fits, [&](auto n) { launch_backward<Centred, n()>(operation, x, norm, wanted); });
  });
}

double share_of(const Tensor& x) { return 1.0 / static_cast<double>(x.row_length()); }

}  // namespace

void layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                         const Destination& dx, const Destination& dgamma, const Destination& dbeta) {
  backward<true>("layer_norm_backward", dy, x, gamma, {}, mean, rstd, share_of(x), dx,
                 {.dgamma = dgamma, .dbeta = dbeta});
}

void rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& rstd,
                       const Destination& dx, const Destination& dgamma) {
  backward<false>("rms_norm_backward", dy, x, gamma, {}, {}, rstd, share_of(x), dx, {.dgamma = dgamma});
}

void scale_norm_dx(const Tensor& dy, const Tensor& x, const Tensor& g, const Tensor& rnorm, const Destination& dx) {
  backward<false>("scale_norm_dx", dy, x, {}, g, {}, rnorm, 1.0, dx, {});
}

void scale_norm_dg(const Tensor& dy, const Tensor& x, const Tensor& rnorm, const Destination& dg) {
  if (!dg.wanted()) return;
  if (x.size() == 0 || dy.size() == 0) return leave_zero(dg);
  const Index copies = dy.size() / x.size();
  const Tensor sums = Tensor::uninitialized({copies * x.rows()}, statistics_dtype(x.dtype()), x.device());
  backward<false>("scale_norm_dg", dy, x, {}, {}, {}, rnorm, 1.0, {}, {.row_sums = sums});
  dispatch_device("scale_norm_dg", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_add_terms("scale_norm_dg", context_of(x), input<Wide<T>>(sums), x.rows(), copies, output<T>(dg.tensor),
                     dg.add);
  });
}

}  // namespace jnorm::cuda
