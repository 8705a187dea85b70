#pragma once

#include <cstddef>
#include <cstdint>

namespace jnorm {

// Counters of the calling thread's pool. A block that one thread takes and another returns counts on both.
struct PoolStatistics {
  std::int64_t requests = 0;            // blocks handed out
  std::int64_t system_allocations = 0;  // of these, how many went to the operating system
  std::int64_t bytes_in_use = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t bytes_cached = 0;  // returned and kept for the next request
};

// A size-bucketed cache of 64-byte-aligned blocks, one per thread, so that a steady-state training step asks the
// operating system for nothing. Sizes are rounded up to one of four steps between powers of two.
namespace pool {

struct Block {
  void* memory = nullptr;
  std::uint32_t size_class = 0;
};

// Throws Error(io) naming the size if the system has no memory left.
Block take(std::size_t bytes);
void give(Block block) noexcept;

PoolStatistics statistics();
void reset_peak();
void trim() noexcept;  // returns the calling thread's cached blocks to the system

}  // namespace pool

}  // namespace jnorm
