#include <jnorm/cuda/config.hpp>

#include <algorithm>

namespace jnorm::cuda {

LaunchConfig elementwise_config(Index count, int per_thread, const DeviceLimits& limits) {
  constexpr int threads = 256;
  const Index needed = ceil_divide(count, Index{threads} * per_thread);
  const Index resident = Index{limits.multiprocessors} * (limits.threads_per_multiprocessor / threads);
  return {.blocks_x = std::min(needed, 4 * resident), .threads = threads};
}

}  // namespace jnorm::cuda
