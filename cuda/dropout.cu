#include <jnorm/cuda/dropout_kernels.cuh>
#include <jnorm/cuda/kernels.hpp>
#include <jnorm/cuda/launch.cuh>

namespace jnorm::cuda {

void dropout(const Tensor& x, double p, const Rng::State& mask, Index period, const Tensor& y) {
  if (x.size() == 0) return;
  const RandomBlocks blocks{.seed = mask.seed, .stream = mask.stream, .counter = mask.counter};
  const auto threshold = static_cast<std::uint64_t>(std::nearbyint(p * 0x1p32));
  const bool whole_packs = x.size() == period || period % kWords == 0;
  Context& context = context_of(y);
  const LaunchConfig config = elementwise_config(period, kWords, context.limits());
  dispatch_device("dropout", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto scale = static_cast<Wide<T>>(p < 1.0 ? 1.0 / (1.0 - p) : 0.0);
    launch("dropout", context, config, dropout_kernel<T>, blocks, threshold, scale, x.size(), period, whole_packs,
           input<T>(x), output<T>(y));
  });
}

}  // namespace jnorm::cuda
