#include "launch.hpp"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <jnorm/cuda/context.hpp>

#include "block.hpp"
#include "fault.hpp"

namespace jnorm::cuda::execution {

namespace {

thread_local std::uint64_t schedule = 0;

void expect_launchable(const char* operation, const LaunchConfig& config, const DeviceLimits& limits) {
  const auto expect = [&](bool holds, const char* limit) {
    if (holds) return;
    throw Fault(
        fmt::format("{}: {} x {} blocks of {} threads with {} bytes of shared memory: no device launches that: {}",
                    operation, config.blocks_x, config.blocks_y, config.threads, config.shared_bytes, limit));
  };
  expect(config.blocks_x > 0 && config.blocks_x <= kMaxBlocksX, "x has 1 to 2147483647 blocks");
  expect(config.blocks_y > 0 && config.blocks_y <= kMaxBlocksY, "y has 1 to 65535 blocks");
  expect(config.threads > 0 && config.threads <= kMaxThreads, "a block has 1 to 1024 threads");
  expect(config.threads % 32 == 0, "blocks are made of whole warps of 32 threads");
  expect(config.shared_bytes >= 0 && config.shared_bytes <= limits.shared_bytes_per_block,
         "a block has less shared memory");
}

// What a kernel finds in shared memory: NaN, if it reads floating-point numbers.
constexpr int kLeftBehind = 0xff;

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
using Arena = std::unique_ptr<unsigned char, FreeMemory>;

// Exactly so many bytes, so that the address sanitizer sees the first one beyond.
Arena make_arena(Index bytes) {
  if (bytes == 0) return nullptr;
  void* memory = nullptr;
  if (posix_memalign(&memory, 16, static_cast<std::size_t>(bytes)) != 0) throw std::bad_alloc();
  std::memset(memory, kLeftBehind, static_cast<std::size_t>(bytes));
  return Arena(static_cast<unsigned char*>(memory));
}

std::vector<Index> shuffled(Index count, Dice& dice) {
  std::vector<Index> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), Index{0});
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[dice.below(i)]);
  return order;
}

}  // namespace

void set_schedule(std::uint64_t seed) { schedule = seed; }

void launch(const char* operation, Context& context, const LaunchConfig& config, const std::function<void()>& body) {
  expect_launchable(operation, config, context.limits());
  const Index blocks = config.blocks_x * config.blocks_y;
  Dice dice(schedule);
  std::vector<Arena> arenas;  // freed after the launch: for the race sanitizer that is a write
  Block block(operation, config.threads, body, schedule);
  for (const Index number : shuffled(blocks, dice)) {
    arenas.push_back(make_arena(config.shared_bytes));
    block.run({.block_size = config.threads,
               .block_x = number % config.blocks_x,
               .block_y = number / config.blocks_x,
               .grid_x = config.blocks_x,
               .grid_y = config.blocks_y,
               .shared = arenas.back().get()});
    if (!sanitizer::kSeesRaces) arenas.clear();
  }
}

}  // namespace jnorm::cuda::execution
