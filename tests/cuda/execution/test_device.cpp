#include <cuda/test_device.hpp>

#include "launch.hpp"

bool jnorm::test::on_gpu() { return false; }
void jnorm::test::set_schedule(std::uint64_t seed) { cuda::execution::set_schedule(seed); }
