#include <vector>

#include <doctest/doctest.h>

#include <jnorm/cuda/launch.cuh>
#include <jnorm/cuda/reduce.cuh>

#include "cuda/test_device.hpp"

namespace jnorm::cuda {

namespace {

JNORM_KERNEL(1024) two_block_sums(float* y) {
  auto* const scratch = dynamic_smem<Sum<float>>();
  const auto indices = block_reduce(Sum<float>{static_cast<float>(thread_index())}, scratch);
  const auto count = block_reduce(Sum<float>{1.0F}, scratch);
  if (thread_index() == 0) y[0] = indices.value;
  if (thread_index() == 1) y[1] = count.value;
}

}  // namespace

TEST_CASE("a block's reductions see every thread, and may share their scratch") {
  test::for_each_schedule([] {
    for (const int threads : {32, 64, 1024}) {
      const Tensor y = zeros({2}, DType::float32).to(test::test_device());
      launch("two_block_sums", test::test_context(), {.threads = threads, .shared_bytes = 32 * 4}, two_block_sums,
             output<float>(y));
      CHECK(y.values() == std::vector<double>{threads * (threads - 1) / 2.0, 1.0 * threads});
    }
  });
}

}  // namespace jnorm::cuda
