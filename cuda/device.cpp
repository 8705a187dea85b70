#include <jnorm/cuda/device.hpp>

#include <map>
#include <memory>
#include <mutex>

#include <jnorm/core/expect.hpp>
#include <jnorm/cuda/context.hpp>

namespace jnorm::cuda {

namespace {

// Contexts live as long as the process: tensors of static objects may need them until its end.
Context& context(int ordinal) {
  static std::mutex mutex;
  static auto& contexts = *new std::map<int, std::unique_ptr<Context>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Context>& found = contexts[ordinal];
  if (!found) found = std::make_unique<Context>(ordinal);
  return *found;
}

Context* context_if_cuda(Device device) { return device == Device::cpu() ? nullptr : &context_of(device); }

}  // namespace

std::string why_none() { return driver::count_devices().why_none; }

std::vector<DeviceInformation> devices() {
  std::vector<DeviceInformation> found;
  const int count = driver::count_devices().devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const driver::DeviceProperties properties = driver::properties(ordinal);
    found.push_back({.name = properties.name,
                     .compute_capability = fmt::format("{}.{}", properties.major, properties.minor),
                     .memory_bytes = static_cast<std::int64_t>(properties.memory_bytes)});
  }
  return found;
}

Device device(int ordinal) {
  const driver::Count count = driver::count_devices();
  expect(count.devices > 0, "cuda: {}", count.why_none);
  expect(ordinal >= 0 && ordinal < count.devices, "cuda: there is no device {}, but {} from 0 on", ordinal,
         count.devices);
  return Device(context(ordinal).interface);
}

void synchronize(Device device) {
  if (Context* const context = context_if_cuda(device)) driver::synchronize(context->stream);
}

MemoryStatistics memory_statistics(Device device) {
  const Context* const context = context_if_cuda(device);
  return context == nullptr ? MemoryStatistics{} : context->memory.statistics();
}

}  // namespace jnorm::cuda
