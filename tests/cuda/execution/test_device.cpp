#include <cuda/test_device.hpp>

#include "launch.hpp"

namespace jnorm::test {

cuda::Context& test_context() {
  static auto& context = *new cuda::Context(0);  // never destroyed: tensors may outlive it
  return context;
}

Device test_device() { return Device(test_context().interface); }
bool on_gpu() { return false; }
void set_schedule(std::uint64_t seed) { cuda::execution::set_schedule(seed); }

}  // namespace jnorm::test
