#pragma once

// The device that the kernels' tests run on. The same tests are built twice: with kernels that a CPU executes
// (cuda_tests), and for a GPU (cuda_gpu_tests).

#include <cstdint>

#include <jnorm/cuda/context.hpp>
#include <jnorm/cuda/device.hpp>

namespace jnorm::test {

inline Device test_device() { return cuda::device(); }
inline cuda::Context& test_context() { return cuda::context_of(test_device()); }

bool on_gpu();

// Calls f() under several orders of blocks and threads where a CPU executes kernels: four, or two where races are
// watched for, which show in any. Once on a GPU, which has its own order.
int schedules();
void set_schedule(std::uint64_t seed);
template <class F>
void for_each_schedule(const F& f) {
  for (int seed = 0; seed < schedules(); ++seed) {
    set_schedule(static_cast<std::uint64_t>(seed));
    f();
  }
  set_schedule(0);
}

}  // namespace jnorm::test
