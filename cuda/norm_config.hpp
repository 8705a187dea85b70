#pragma once

// Launch configurations of the norms over rows: pure functions of shapes, as those of config.hpp.

#include <cstdint>

#include <jnorm/cuda/config.hpp>

namespace jnorm::cuda {

constexpr Index kReduceScratchBytes = 1024;  // of shared memory, for a reduction over a block

// Who holds a row, and where: a warp or a block, in registers, or a block that reads it twice.
enum class RowTeam : std::uint8_t { warp, block, long_row };

constexpr int kLongRowThreads = 512;

struct NormForwardConfig {
  RowTeam team;
  int held_packs;  // the most that a thread holds in registers; 0 for long rows
  LaunchConfig launch;
};

// For rows of `packs` packs of `pack` elements.
NormForwardConfig norm_forward_config(Index rows, Index packs, int pack, int element_bytes);

constexpr int kColumnThreads = 128;

// Backward, with sums over rows of every column: dgamma and dbeta, dgamma, or none.
struct NormBackwardShape {
  Index rows, length, copies;
  int pack, element_bytes, wide_bytes;  // wide_bytes: of an element of the sums
  int column_sums;                      // 0, 1 or 2
};
struct NormBackwardConfig {
  RowTeam team;
  int held_packs;
  Index parts;  // of the rows, in each of which every column has sums of its own
  LaunchConfig launch;
};
NormBackwardConfig norm_backward_config(const NormBackwardShape& shape, const DeviceLimits& limits);

// How many parts rows are cut into where threads walk down columns in blocks, `tiles` side by side.
Index column_part_count(Index rows, Index tiles);

// For the second step, which adds the sums of the parts: tiles of 32 columns. Columns of long rows: tiles of
// kColumnThreads packs.
LaunchConfig column_parts_config(Index tiles, Index sums, Index copies, Index parts, int wide_bytes);
}  // namespace jnorm::cuda
