#pragma once

// One GPU as this library uses it: its entry for core's devices, its limits, its memory, and the stream that all its
// work is queued on. Kernels, copies and allocations follow one another in the stream's order.

#include <string>

#include <jnorm/core/device.hpp>
#include <jnorm/core/tensor.hpp>
#include <jnorm/cuda/config.hpp>
#include <jnorm/cuda/driver.hpp>
#include <jnorm/cuda/memory.hpp>

namespace jnorm::cuda {

struct Context {
  DeviceInterface interface;  // first, so that a tensor's device leads here
  driver::DeviceProperties properties;
  driver::Stream stream;
  MemoryPool memory;
  void* blas = nullptr;  // cuBLAS's handle, once it is needed

  explicit Context(int ordinal);
  const DeviceLimits& limits() const { return properties.limits; }
};

// The context of a device that isn't the CPU, or of the one that a tensor is on.
inline Context& context_of(const DeviceInterface& interface) {
  return *reinterpret_cast<Context*>(const_cast<DeviceInterface*>(&interface));
}
inline Context& context_of(Device device) { return context_of(device.interface()); }
inline Context& context_of(const Tensor& tensor) { return context_of(tensor.device()); }

// Queues a kernel of nvcc's. Throws Error(io) with the operation's name and the configuration if the device refuses it.
void launch_kernel(const char* operation, Context& context, const LaunchConfig& config, const void* kernel,
                   void** arguments);

}  // namespace jnorm::cuda
