// LayerNorm, RMSNorm and ScaleNorm, forward: see norm_kernels.cuh.

#include <jnorm/cuda/kernels.hpp>
#include <jnorm/cuda/launch.cuh>
#include <jnorm/cuda/norm_config.hpp>
#include <jnorm/cuda/norm_kernels.cuh>

namespace jnorm::cuda {

namespace {

template <bool Centred, int N, class T>
void launch_forward(const char* operation, Context& context, const NormForward<T>& norm) {
  constexpr RowChoices choices = norm_forward_choices(N, sizeof(T));
  const RowPlan plan = row_plan(norm.length / N, choices);
  const LaunchConfig config = row_config(norm.rows, plan);
  with_row_team<choices>(plan, [&]<class Team, int V>() {
    if constexpr (V == 0) {
      launch(operation, context, config, norm_forward_streamed<Centred, Team, T, N>, norm);
    } else {
      launch(operation, context, config, norm_forward_held<Centred, Team, T, N, V>, norm);
    }
  });
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
    constexpr int pack = kRowPack<T>;
    const bool fits = packs_fit<pack>(norm.x, norm.length) && packs_fit<pack>(norm.y, norm.length) &&
                      packs_fit<pack>(norm.gamma, norm.length) && packs_fit<pack>(norm.beta, norm.length);
    with_row_pack<T>(fits, [&](auto n) { launch_forward<Centred, n()>(operation, context_of(x), norm); });
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
