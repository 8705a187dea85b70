// Dropout: which elements fall away follows from the generator's state and their position alone, so the mask is
// computed anew where it is needed, and doesn't depend on threads.

#include <cmath>

#include <jnorm/core/dtype.hpp>
#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/parallel.hpp>

namespace jnorm::cpu {

void dropout(const Tensor& x, double p, const Rng::State& mask, Index period, const Tensor& y) {
  dispatch_wide("dropout", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr Index words = 4, blocks_per_chunk = 1024;
    const auto threshold = static_cast<std::uint64_t>(std::nearbyint(p * 0x1p32));
    const T scale = p < 1.0 ? static_cast<T>(1.0 / (1.0 - p)) : T(0);
    const Rng rng = Rng::from_state(mask);
    const T* const in = x.data<T>();
    T* const out = y.output_data<T>();
    parallel_for((period + words - 1) / words, blocks_per_chunk, [&](Index begin, Index end) {
      for (Index block = begin; block < end; ++block) {
        const std::array<std::uint32_t, 4> random = rng.block(static_cast<std::uint64_t>(block));
        const Index first = block * words, count = std::min(words, period - first);
        for (Index copy = 0; copy < x.size(); copy += period) {
          for (Index i = 0; i < count; ++i) {
            const Index element = copy + first + i;
            // Selected and not multiplied: a dropped infinity is 0.
            out[element] = random[static_cast<std::size_t>(i)] < threshold ? T(0) : in[element] * scale;
          }
        }
      }
    });
  });
}

}  // namespace jnorm::cpu
