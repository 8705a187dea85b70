#pragma once

// What the kernels' side of the execution (device_code.hpp) asks of its running part.

#include <cstddef>
#include <cstdint>

#include <jnorm/core/shape.hpp>
#include <jnorm/core/source_line.hpp>

namespace jnorm::cuda::execution {

// Where the running CUDA thread stands.
struct Place {
  int thread = 0, block_size = 0;
  Index block_x = 0, block_y = 0, grid_x = 0, grid_y = 0;
  unsigned char* shared = nullptr;
};
extern constinit thread_local Place place;

enum class Collective : std::uint8_t { shuffle_xor, shuffle, ballot, warp_barrier };

void block_barrier(SourceLine line);
// Waits for all lanes of the warp; what source_lane brought. For a ballot: one bit a lane whose value isn't 0.
std::uint64_t collective(Collective kind, std::uint64_t value, int source_lane, SourceLine line);
// Ends the launch with a Fault: the address of a load or store is no multiple of its size.
[[noreturn]] void report_misaligned(const void* address, std::size_t bytes, SourceLine line);

}  // namespace jnorm::cuda::execution
