// The driver of a device that a CPU executes: its memory is the host's, its stream does at once what is queued.

#include <jnorm/cuda/driver.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "memory_limit.hpp"

namespace jnorm::cuda {

namespace {

// As CUDA aligns its blocks.
constexpr std::size_t kAlignment = 256;

struct HostMemory {
  std::mutex mutex;
  std::map<void*, std::size_t> blocks;
  std::size_t used = 0, limit = execution::kDefaultMemoryLimit;
};

HostMemory& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace

void execution::set_memory_limit(std::size_t bytes) {
  const std::lock_guard lock(host_memory().mutex);
  host_memory().limit = bytes;
}

namespace driver {

Count count_devices() { return {.devices = 1, .why_none = ""}; }

DeviceProperties properties(int /*ordinal*/) {
  return {.name = "kernels executed on the CPU",
          .major = 9,
          .minor = 0,
          .memory_bytes = execution::kDefaultMemoryLimit,
          .limits = {}};
}

Stream make_stream(int /*ordinal*/) { return nullptr; }
void synchronize(Stream /*stream*/) {}

// As many bytes as asked for, so that the address sanitizer sees the first one beyond.
std::size_t block_bytes(std::size_t bytes) { return std::max<std::size_t>(bytes, 1); }
void* allocate(int /*ordinal*/, std::size_t bytes) {
  HostMemory& host = host_memory();
  const std::lock_guard lock(host.mutex);
  void* memory = nullptr;
  if (host.used + bytes > host.limit || posix_memalign(&memory, kAlignment, bytes) != 0) return nullptr;
  host.blocks[memory] = bytes;
  host.used += bytes;
  return memory;
}

void release(int /*ordinal*/, void* memory) noexcept {
  HostMemory& host = host_memory();
  const std::lock_guard lock(host.mutex);
  const auto block = host.blocks.find(memory);
  host.used -= block->second;
  host.blocks.erase(block);
  std::free(memory);
}

Memory memory(int /*ordinal*/) {
  HostMemory& host = host_memory();
  const std::lock_guard lock(host.mutex);
  return {.free_bytes = host.limit - host.used, .all_bytes = host.limit};
}

void copy_from_host(Stream /*stream*/, void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}
void copy_to_host(Stream /*stream*/, void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}
void copy_on_device(Stream /*stream*/, void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}
void fill_zero(Stream /*stream*/, void* memory, std::size_t bytes) {
  if (bytes != 0) std::memset(memory, 0, bytes);
}

}  // namespace driver

}  // namespace jnorm::cuda
