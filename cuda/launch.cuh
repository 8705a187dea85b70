#pragma once

// Starts a kernel on a device's stream: by nvcc's runtime, or thread by thread where the tests execute kernels on a
// CPU.

#include <type_traits>

#include <jnorm/core/kernels.hpp>
#include <jnorm/cuda/config.hpp>
#include <jnorm/cuda/context.hpp>
#include <jnorm/cuda/portable.cuh>

namespace jnorm::cuda {

// The elements of a tensor on a device, as device code sees them; null for an undefined tensor.
template <class T>
const T* input(const Tensor& tensor) {
  return tensor.defined() ? static_cast<const T*>(tensor.device_data()) : nullptr;
}
template <class T>
T* output(const Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.device_data()) : nullptr;
}

// Calls f(TypeTag<T>) with the type that device code has for the elements.
template <class F>
void dispatch_device(const char* operation, DType dtype, F&& f) {
  dispatch_floating(operation, dtype, [&](auto tag) { f(TypeTag<DeviceType<typename decltype(tag)::type>>{}); });
}
// The same, int32 included.
template <class F>
void dispatch_device_any(const char* operation, DType dtype, F&& f) {
  dispatch_any(operation, dtype, [&](auto tag) { f(TypeTag<DeviceType<typename decltype(tag)::type>>{}); });
}

// Queues kernel(arguments...) on the context's stream. A grid without blocks is no launch. Throws Error(io) with the
// operation's name and the configuration if the device refuses it, or an earlier kernel has failed.
template <class... Parameters>
void launch(const char* operation, Context& context, const LaunchConfig& config, void (*kernel)(Parameters...),
            std::type_identity_t<Parameters>... arguments) {
  if (config.blocks_x == 0 || config.blocks_y == 0) return;
#if defined(__CUDACC__)
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))..., nullptr};
  launch_kernel(operation, context, config, reinterpret_cast<const void*>(kernel), pointers);
#else
  execution::launch(operation, context, config, [=] { kernel(arguments...); });
#endif
}

}  // namespace jnorm::cuda
