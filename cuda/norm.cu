// LayerNorm, RMSNorm and ScaleNorm, forward: see norm_kernels.cuh.

#include <jnorm/cuda/kernels.hpp>
#include <jnorm/cuda/launch.cuh>
#include <jnorm/cuda/norm_kernels.cuh>

namespace jnorm::cuda {

namespace {

template <bool Centred, int N, class T>
void launch_forward(const char* operation, Context& context, const NormForward<T>& norm) {
  const NormForwardConfig chosen = norm_forward_config(norm.rows, norm.length / N, N, sizeof(T));
  const auto with = [&](auto* kernel) { launch(operation, context, chosen.launch, kernel, norm); };
  if (chosen.team == RowTeam::long_row) return with(norm_forward_long<Centred, T, N>);
  if constexpr (N == 1) {
    constexpr int single = sizeof(T) == 8 ? 4 : 8;
    if (chosen.team == RowTeam::block) return with(norm_forward<Centred, BlockTeam<kMaxThreads / 2>, T, N, single>);
    with(norm_forward<Centred, WarpTeam<kMaxThreads / 4>, T, N, single>);
  } else {
    if (chosen.team == RowTeam::block) return with(norm_forward<Centred, BlockTeam<kMaxThreads>, T, N, 4>);
    if (chosen.held_packs == 4) return with(norm_forward<Centred, WarpTeam<kMaxThreads / 4>, T, N, 4>);
    with(norm_forward<Centred, WarpTeam<kMaxThreads / 4>, T, N, 2>);
  }
}

// Launches with what the norm has beside x, y and the saved numbers: set(norm) gives it.
template <bool Centred, class Set>
void normalize(const char* operation, const Tensor& x, double eps, const Tensor& y, const Tensor& mean,
               const Tensor& rstd, const Set& set) {
  if (x.size() == 0) return;
  dispatch_device(operation, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    NormForward<T> norm{.x = input<T>(x),
                        .y = output<T>(y),
                        .mean = output<Wide<T>>(mean),
                        .rstd = output<Wide<T>>(rstd),
                        .rows = x.rows(),
                        .length = x.row_length(),
                        .eps = eps,
                        .share = 1.0 / static_cast<double>(x.row_length())};
    set(norm);
    constexpr int pack = kNormPack<T>;
    const bool fits = packs_fit<pack>(norm.x, norm.length) && packs_fit<pack>(norm.y, norm.length) &&
                      packs_fit<pack>(norm.gamma, norm.length) && packs_fit<pack>(norm.beta, norm.length);
    if (fits) {
      launch_forward<Centred, pack>(operation, context_of(x), norm);
    } else if constexpr (pack > 1) {
      launch_forward<Centred, 1>(operation, context_of(x), norm);
    }
  });
}

}  // namespace

void layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps, const Tensor& y,
                const Tensor& mean, const Tensor& rstd) {
  normalize<true>("layer_norm", x, eps, y, mean, rstd, [&]<class T>(NormForward<T>& norm) {
    norm.gamma = input<T>(gamma);
    norm.beta = input<T>(beta);
  });
}

void rms_norm(const Tensor& x, const Tensor& gamma, double eps, const Tensor& y, const Tensor& rstd) {
  normalize<false>("rms_norm", x, eps, y, {}, rstd,
                   [&]<class T>(NormForward<T>& norm) { norm.gamma = input<T>(gamma); });
}

void scale_norm(const Tensor& x, const Tensor& g, double eps, const Tensor& y, const Tensor& rnorm) {
  normalize<false>("scale_norm", x, eps, y, {}, rnorm, [&]<class T>(NormForward<T>& norm) {
    norm.gain = input<T>(g);
    norm.share = 1.0;
    norm.zero_rows_stay = true;
  });
}

}  // namespace jnorm::cuda
