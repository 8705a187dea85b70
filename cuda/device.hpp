#pragma once

// NVIDIA GPUs as devices. Also there, and empty-handed, in a build without CUDA.

#include <cstdint>
#include <string>
#include <vector>

#include <jnorm/core/device.hpp>

namespace jnorm::cuda {

// A GPU, for tensors and models: model.to(cuda::device()). Throws Error(argument) that says in one line what is
// missing: a build with CUDA, a driver, or the device.
Device device(int ordinal = 0);

struct DeviceInformation {
  std::string name;                // "NVIDIA H200"
  std::string compute_capability;  // "9.0"
  std::int64_t memory_bytes = 0;
};
std::vector<DeviceInformation> devices();

// Why there is no device: "built without CUDA", "no driver" ...; empty if there is one.
std::string why_none();

// Waits until the device has done what it was given. Throws Error(io) if a kernel failed. Nothing on other devices.
void synchronize(Device device);

// Counters of a device's memory, as pool::statistics() has them for the host's: 0 on other devices.
struct MemoryStatistics {
  std::int64_t requests = 0;            // blocks handed out
  std::int64_t system_allocations = 0;  // of these, how many went to CUDA
  std::int64_t bytes_in_use = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t bytes_cached = 0;  // given back and kept for the next request
};

MemoryStatistics memory_statistics(Device device);

}  // namespace jnorm::cuda
