// Kernels with one fault each, and what finds it: the test of the execution's reports and of the race sanitizer's. The
// argument names the fault.

#include <cstdio>
#include <map>
#include <string>

#include <jnorm/cuda/launch.cuh>
#include <jnorm/cuda/pack.cuh>
#include <jnorm/cuda/reduce.cuh>

#include "cuda/test_device.hpp"

namespace jnorm::cuda {

namespace {

// reduce.cuh's block_reduce without its first barrier: a warp that is ahead overwrites what others still read.
JNORM_DEVICE float sum_without_barrier(float value, float* scratch) {
  value = warp_reduce(Sum<float>{value}).value;
  if (lane_index() == 0) scratch[warp_index()] = value;
  block_barrier();
  float total = 0;
  for (int warp = 0; warp < block_size() / kWarpSize; ++warp) total += scratch[warp];
  return total;
}
JNORM_KERNEL(128) barrier_removed(float* y) {
  const float first = sum_without_barrier(1, dynamic_smem<float>());
  const float second = sum_without_barrier(1, dynamic_smem<float>());
  y[block_x() * block_size() + thread_index()] = first + second;
}

// Lanes read one another's numbers through shared memory. The neighbour to the left has often written before, so that
// the values are right; nothing makes it so.
JNORM_KERNEL(32) warp_barrier_removed(float* y) {
  auto* const shared = dynamic_smem<float>();
  shared[thread_index()] = 1;
  ballot(true);  // orders nothing
  y[block_x() * block_size() + thread_index()] = shared[thread_index() ^ 1];
}

JNORM_KERNEL(32) atomic_removed(float* y) {
  auto* const count = reinterpret_cast<int*>(y);
  if (thread_index() == 0) *count = *count + 1;
}

// The second block takes what the first one has written for granted.
JNORM_KERNEL(32) order_of_blocks(float* y) {
  if (thread_index() > 0) return;
  if (block_x() == 0) {
    y[0] = 1;
  } else {
    y[1] = y[0];
  }
}

JNORM_KERNEL(64) divergent_barrier(float* y) {
  if (thread_index() < 40) block_barrier();
  y[thread_index()] = 1;
}

JNORM_KERNEL(32) misaligned_pack(float* y) { store_pack(y + 4 * thread_index() + 1, Pack<float, 4>{}); }

void run(const std::string& name) {
  const std::map<std::string, void (*)(float*)> kernels{
      {"barrier_removed", barrier_removed},     {"warp_barrier_removed", warp_barrier_removed},
      {"atomic_removed", atomic_removed},       {"order_of_blocks", order_of_blocks},
      {"divergent_barrier", divergent_barrier}, {"misaligned_pack", misaligned_pack}};
  const int threads = name == "barrier_removed" ? 128 : name == "divergent_barrier" ? 64 : 32;
  test::for_each_schedule([&] {
    const Tensor y = zeros({256}, DType::float32).to(test::test_device());
    launch(name.c_str(), test::test_context(), {.blocks_x = 2, .threads = threads, .shared_bytes = 128},
           kernels.at(name), output<float>(y));
  });
}

}  // namespace

}  // namespace jnorm::cuda

int main(int /*count*/, char** arguments) {
  try {
    jnorm::cuda::run(arguments[1]);
  } catch (const std::exception& error) {
    std::puts(error.what());
  }
}
