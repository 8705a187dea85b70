// What runs the kernels of the other tests on a CPU, and its reports of what no GPU allows.

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <jnorm/cuda/launch.cuh>
#include <jnorm/cuda/pack.cuh>
#include <jnorm/cuda/reduce.cuh>

#include <cuda/test_device.hpp>

namespace jnorm::cuda {

namespace {

using test::for_each_schedule;
using test::test_context;
using test::test_device;

Tensor device_zeros(Index count, DType dtype = DType::float32) { return zeros({count}, dtype).to(test_device()); }

JNORM_KERNEL(64) write_index(float* y) {
  y[block_x() * block_size() + thread_index()] = static_cast<float>(1000 * block_x() + thread_index());
}

JNORM_KERNEL(1024) sum_of_indices(float* y) {
  auto* const scratch = dynamic_smem<Sum<float>>();
  const auto first = block_reduce(Sum<float>{static_cast<float>(thread_index())}, scratch);
  const auto second = block_reduce(Sum<float>{1.0F}, scratch);
  if (thread_index() == 0) y[0] = first.value;
  if (thread_index() == 1) y[1] = second.value;
}

JNORM_KERNEL(64) barrier_for_some(float* y) {
  if (thread_index() < 40) block_barrier();
  y[thread_index()] = 1;
}

}  // namespace

TEST_CASE("every thread of every block runs") {
  for_each_schedule([] {
    const Tensor y = device_zeros(128);
    launch("write_index", test_context(), {.blocks_x = 2, .threads = 64}, write_index, output<float>(y));
    const std::vector<double> values = y.values();
    CHECK(values[0] == 0);
    CHECK(values[63] == 63);
    CHECK(values[64] == 1000);
    CHECK(values[127] == 1063);
  });
}

TEST_CASE("a block's reductions see every thread, and may share their scratch") {
  for_each_schedule([] {
    const Tensor y = device_zeros(2);
    launch("sum_of_indices", test_context(), {.threads = 1024, .shared_bytes = 32 * 4}, sum_of_indices,
           output<float>(y));
    CHECK(y.values() == std::vector<double>{1024 * 1023 / 2, 1024});
  });
}

#if !defined(__CUDACC__)
TEST_CASE("a barrier that only some threads reach is reported with thread and line") {
  const Tensor y = device_zeros(64);
  CHECK_THROWS_WITH(
      launch("barrier_for_some", test_context(), {.threads = 64}, barrier_for_some, output<float>(y)),
      doctest::Contains("barrier_for_some: block (0, 0): thread 32 waits at a barrier at execution_test.cpp:"));
}
#endif

}  // namespace jnorm::cuda
