#include <cuda/test_device.hpp>

#include "launch.hpp"
#include "sanitizer.hpp"

bool jnorm::test::on_gpu() { return false; }
int jnorm::test::schedules() { return cuda::execution::sanitizer::kSeesRaces ? 2 : 4; }
void jnorm::test::set_schedule(std::uint64_t seed) { cuda::execution::set_schedule(seed); }
