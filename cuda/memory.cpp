#include <jnorm/cuda/memory.hpp>

#include <algorithm>

#include <jnorm/core/expect.hpp>

namespace jnorm::cuda {

namespace {

double gibibytes(double bytes) { return bytes / (1024.0 * 1024.0 * 1024.0); }

}  // namespace

MemoryPool::Block MemoryPool::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t size = driver::block_bytes(bytes);
  void* memory = nullptr;
  if (auto& kept = cached_[size]; !kept.empty()) {
    memory = kept.back();
    kept.pop_back();
    statistics_.bytes_cached -= static_cast<std::int64_t>(size);
  } else {
    memory = driver::allocate(ordinal_, size);
    if (memory == nullptr) {  // what is cached may do, in other sizes
      trim_locked();
      memory = driver::allocate(ordinal_, size);
    }
    if (memory == nullptr) {
      const driver::Memory left = driver::memory(ordinal_);
      throw DeviceFailure(fmt::format(
          "cuda:{}: out of memory: {:.2f} GiB were asked for, {:.2f} of {:.2f} GiB are free, and {:.2f} GiB were in "
          "use at most; take a smaller batch or context, or fewer layers",
          ordinal_, gibibytes(static_cast<double>(bytes)), gibibytes(static_cast<double>(left.free_bytes)),
          gibibytes(static_cast<double>(left.all_bytes)), gibibytes(static_cast<double>(statistics_.peak_bytes))));
    }
    ++statistics_.system_allocations;
  }
  ++statistics_.requests;
  statistics_.bytes_in_use += static_cast<std::int64_t>(size);
  statistics_.peak_bytes = std::max(statistics_.peak_bytes, statistics_.bytes_in_use);
  return {memory, size};
}

void MemoryPool::give(Block block) noexcept {
  const std::lock_guard lock(mutex_);
  statistics_.bytes_in_use -= static_cast<std::int64_t>(block.bytes);
  try {
    cached_[block.bytes].push_back(block.memory);
    statistics_.bytes_cached += static_cast<std::int64_t>(block.bytes);
  } catch (const std::bad_alloc&) {
    driver::release(ordinal_, block.memory);
  }
}

void MemoryPool::trim() noexcept {
  const std::lock_guard lock(mutex_);
  trim_locked();
}

void MemoryPool::trim_locked() noexcept {
  for (auto& [size, kept] : cached_) {
    for (void* memory : kept) driver::release(ordinal_, memory);
    kept.clear();
  }
  statistics_.bytes_cached = 0;
}

void MemoryPool::reset_peak() {
  const std::lock_guard lock(mutex_);
  statistics_.peak_bytes = statistics_.bytes_in_use;
}

MemoryStatistics MemoryPool::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace jnorm::cuda
