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

// Calls f() under several orders of blocks and threads where a CPU executes kernels; once on a GPU, which has its own.
void set_schedule(std::uint64_t seed);
template <class F>
void for_each_schedule(const F& f) {
  constexpr std::uint64_t schedules = 4;
  for (std::uint64_t seed = 0; seed < (on_gpu() ? 1 : schedules); ++seed) {
    set_schedule(seed);
    f();
  }
  set_schedule(0);
}

}  // namespace jnorm::test
