// What stands for the GPUs in a build without CUDA.

#include <jnorm/core/expect.hpp>
#include <jnorm/cuda/device.hpp>

namespace jnorm::cuda {

std::string why_none() { return "built without CUDA"; }

std::vector<DeviceInformation> devices() { return {}; }

Device device(int /*ordinal*/) { fail(ErrorKind::argument, "cuda: {}", why_none()); }

void synchronize(Device /*device*/) {}

MemoryStatistics memory_statistics(Device /*device*/) { return {}; }

}  // namespace jnorm::cuda
