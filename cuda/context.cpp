#include <jnorm/cuda/context.hpp>

#include <new>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/pool.hpp>
#include <jnorm/core/storage.hpp>
#include <jnorm/cuda/kernels.hpp>

namespace jnorm::cuda {

namespace {

std::string name(int ordinal) { return fmt::format("cuda:{}", ordinal); }

// A device's storage: the header in the host's memory, followed by the block of the device's that holds the elements.
struct DeviceStorage {
  Storage header;
  MemoryPool::Block block;
};

Storage* allocate(const DeviceInterface& self, std::size_t bytes) {
  const MemoryPool::Block block = context_of(self).memory.take(bytes);
  const pool::Block host = pool::take(sizeof(DeviceStorage));
  auto* const storage = new (host.memory) DeviceStorage;
  storage->header.size_class = host.size_class;
  storage->header.device_data = block.memory;
  storage->header.device = &self;
  storage->block = block;
  return &storage->header;
}

void release(Storage* header) noexcept {
  auto* const storage = reinterpret_cast<DeviceStorage*>(header);
  if (header->host_copy != nullptr) const StorageHandle dropped(header->host_copy);
  context_of(*header->device).memory.give(storage->block);
  const std::uint32_t size_class = header->size_class;
  storage->~DeviceStorage();
  pool::give({storage, size_class});
}

void copy_from_host(const void* from, const Storage& to, std::size_t bytes) {
  driver::copy_from_host(context_of(*to.device).stream, to.device_data, from, bytes);
}

void copy_to_host(const Storage& from, void* to, std::size_t bytes) {
  driver::copy_to_host(context_of(*from.device).stream, to, from.device_data, bytes);
}

DeviceInterface interface_of(int ordinal) {
  return {.name = name,
          .allocate = allocate,
          .release = release,
          .kernels = &cuda_kernels(),
          .ordinal = ordinal,
          .copy_from_host = copy_from_host,
          .copy_to_host = copy_to_host};
}

}  // namespace

Context::Context(int ordinal)
    : interface(interface_of(ordinal)),
      properties(driver::properties(ordinal)),
      stream(driver::make_stream(ordinal)),
      memory(ordinal) {}

}  // namespace jnorm::cuda
