#pragma once

// Blocks of a device's memory, kept for the next tensor of their size, so that a training step in its steady state asks
// CUDA for nothing. A block that is given back may be taken at once: the stream does the old work before the new.

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include <jnorm/cuda/device.hpp>
#include <jnorm/cuda/driver.hpp>

namespace jnorm::cuda {

// Safe to use from several threads.
class MemoryPool {
 public:
  struct Block {
    void* memory = nullptr;
    std::size_t bytes = 0;  // rounded up from what was asked
  };

  explicit MemoryPool(int ordinal) : ordinal_(ordinal) {}
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // Throws Error(io) that says how much was asked, how much is free, the peak, and what to do.
  Block take(std::size_t bytes);
  void give(Block block) noexcept;
  void trim() noexcept;  // returns what is cached to CUDA
  void reset_peak();
  MemoryStatistics statistics() const;

 private:
  void trim_locked() noexcept;

  int ordinal_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> cached_;
  MemoryStatistics statistics_;
};

}  // namespace jnorm::cuda
