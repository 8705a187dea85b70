#include <jnorm/core/pool.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>

#include <jnorm/core/expect.hpp>

namespace jnorm::pool {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::uint32_t kSmallestLog = 7;  // 128 bytes: a header and one cache line of data
constexpr std::size_t kClasses = std::size_t{4} * 48;

// A cached block's first bytes link it to the next one of its class.
struct FreeBlock {
  FreeBlock* next;
};

// Rounded up to the alignment, as the system's aligned_alloc demands.
constexpr std::size_t class_bytes(std::uint32_t size_class) {
  const std::size_t base = std::size_t{1} << (kSmallestLog + size_class / 4);
  return (base + base / 4 * (size_class % 4) + kAlignment - 1) / kAlignment * kAlignment;
}

constexpr std::uint32_t class_of(std::size_t bytes) {
  if (bytes <= (std::size_t{1} << kSmallestLog)) return 0;
  const auto log = static_cast<std::uint32_t>(std::bit_width(bytes - 1) - 1);  // 2^log < bytes <= 2^(log+1)
  const std::size_t base = std::size_t{1} << log;
  const auto quarter = static_cast<std::uint32_t>((bytes - base + base / 4 - 1) / (base / 4));
  return 4 * (log - kSmallestLog) + quarter;
}

struct ThreadCache {
  std::array<FreeBlock*, kClasses> free{};
  PoolStatistics statistics;

  ~ThreadCache() { trim(); }

  void trim() noexcept {
    for (FreeBlock*& head : free) {
      while (head != nullptr) {
        FreeBlock* const next = head->next;
        std::free(head);
        head = next;
      }
    }
    statistics.bytes_cached = 0;
  }
};

// Tensors with static storage may die after the thread's cache: `cache_gone` sends their blocks straight to the system.
thread_local bool cache_gone = false;

struct CacheOwner {
  ThreadCache cache;
  ~CacheOwner() { cache_gone = true; }
};

thread_local CacheOwner owner;

}  // namespace

Block take(std::size_t bytes) {
  expect(bytes < (std::size_t{1} << 46), "memory: {} bytes were asked for at once", bytes);
  const std::uint32_t size_class = class_of(bytes);
  const std::size_t rounded = class_bytes(size_class);
  ThreadCache& cache = owner.cache;
  FreeBlock*& head = cache.free[size_class];
  void* memory = head;
  if (head != nullptr) {
    head = head->next;
    cache.statistics.bytes_cached -= static_cast<std::int64_t>(rounded);
  } else {
    memory = std::aligned_alloc(kAlignment, rounded);
    if (memory == nullptr) {
      fail(ErrorKind::io, "memory: the system has no {} bytes left ({} in use, peak {}); use a smaller model or batch",
           rounded, cache.statistics.bytes_in_use, cache.statistics.peak_bytes);
    }
    ++cache.statistics.system_allocations;
  }
  ++cache.statistics.requests;
  cache.statistics.bytes_in_use += static_cast<std::int64_t>(rounded);
  cache.statistics.peak_bytes = std::max(cache.statistics.peak_bytes, cache.statistics.bytes_in_use);
  return {memory, size_class};
}

void give(Block block) noexcept {
  if (cache_gone) {
    std::free(block.memory);
    return;
  }
  ThreadCache& cache = owner.cache;
  const auto rounded = static_cast<std::int64_t>(class_bytes(block.size_class));
  auto* const returned = static_cast<FreeBlock*>(block.memory);
  returned->next = cache.free[block.size_class];
  cache.free[block.size_class] = returned;
  cache.statistics.bytes_in_use -= rounded;
  cache.statistics.bytes_cached += rounded;
}

PoolStatistics statistics() { return owner.cache.statistics; }

void reset_peak() { owner.cache.statistics.peak_bytes = owner.cache.statistics.bytes_in_use; }

void trim() noexcept { owner.cache.trim(); }

}  // namespace jnorm::pool
