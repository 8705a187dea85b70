#pragma once

// Launch configurations: pure functions of shapes, dtypes and a device's limits.

#include <array>
#include <cstddef>
#include <cstdint>

#include <jnorm/core/shape.hpp>

namespace jnorm::cuda {

// How a kernel is launched: a grid of blocks_x * blocks_y blocks of `threads` threads, each with shared_bytes of
// dynamic shared memory.
struct LaunchConfig {
  Index blocks_x = 1;  // at most 2^31 - 1
  int threads = 256;   // a multiple of 32, at most 1024
  Index shared_bytes = 0;
  Index blocks_y = 1;  // at most 65535
};

// What of a device decides how kernels are launched on it.
struct DeviceLimits {
  int multiprocessors = 132;
  int threads_per_multiprocessor = 2048;
  Index shared_bytes_per_block = 232448;  // the most that a kernel can ask for
};

constexpr Index kMaxBlocksX = 2147483647;
constexpr Index kMaxBlocksY = 65535;
constexpr int kMaxThreads = 1024;
constexpr Index kDefaultSharedBytes = 49152;  // what a kernel gets without asking for more

constexpr int kWarpSize = 32;
// Of shared memory, for a reduction over a block: the largest state, from each of its warps.
constexpr Index kReductionBytes = Index{kMaxThreads / kWarpSize} * 32;

constexpr Index ceil_divide(Index a, Index b) { return (a + b - 1) / b; }

// The least power of two that is `least` or more, but not above `most`, a power of two.
constexpr int power_of_two_from(Index least, int most) {
  int power = 1;
  while (power < least && power < most) power *= 2;
  return power;
}
constexpr int whole_warps(Index threads) { return static_cast<int>(ceil_divide(threads, kWarpSize)) * kWarpSize; }

constexpr int kElementwiseThreads = 256;

// One thread for `per_thread` of `count` elements at a time, in a grid that stays resident and strides over them.
LaunchConfig elementwise_config(Index count, int per_thread, const DeviceLimits& limits);

// A block for each square of kTile x kTile elements of two axes, which it holds in shared memory.
constexpr int kTile = 32;
constexpr int kTileRow = kTile + 1;  // so that a column lies in 32 different banks
LaunchConfig transpose_config(Index x_axis, Index y_axis, Index others, Index element_bytes);

// How a reduction of [outer, length, inner] over its middle axis is shared out. It follows from the shape alone, so
// that the order of additions does too.
struct ReductionPlan {
  Index outer, length, inner;
  int lanes = 1;          // a power of two: threads side by side along a row, or across the columns
  Index parts = 1;        // the length is cut into so many, each a partial result that a second pass reduces
  Index part_length = 0;  // of all parts but the last, which may be shorter
};
constexpr int kReductionThreads = 256;

// Elements are loaded in packs of pack_size; in columns, inner is a multiple of it.
enum class Split : std::uint8_t { allowed, no };
ReductionPlan reduction_plan(Index outer, Index length, Index inner, int pack_size, Split split);
LaunchConfig reduction_config(const ReductionPlan& plan, int pack_size, Index state_bytes);

// What one block takes of tensors that are walked through together: so many elements. Where each block reduces its own
// to one number, states are of float64.
constexpr Index kChunk = 8192;
constexpr int kChunkThreads = 256;
LaunchConfig chunk_config(Index chunks);
LaunchConfig reducing_chunk_config(Index chunks);

// How a kernel takes rows: a team, a warp or a block, for each. A row is held in the team's registers, or streamed.
enum class RowTeam : std::uint8_t { warp, block };
struct RowPlan {
  RowTeam team;
  int block_threads;  // of several warps, each with a row, or of one team
  int held_packs;     // of a row in each thread, at most; 0: the row is streamed

  constexpr int rows_of_block() const { return team == RowTeam::warp ? block_threads / kWarpSize : 1; }
};

constexpr int kWarpTeamThreads = 128;  // of a block of warps
constexpr int kStreamThreads = 512;    // of a block that streams a row, at most: so a multiprocessor has several

// The kernels that there are for rows of one kind: how many packs each thread of a team may hold, ascending, then 0.
struct RowChoices {
  std::array<int, 3> warp;
  std::array<int, 2> block;
  int block_threads = kMaxThreads;  // at most
  int warp_threads = kWarpTeamThreads;
};
// For rows of `packs` packs: a warp if it holds them, or else a block, or else a block that streams them.
RowPlan row_plan(Index packs, const RowChoices& choices);
// The same where rows are streamed whatever their length, `chunk_packs` packs a thread at a time.
RowPlan streamed_row_plan(Index packs, int chunk_packs);
// A team for each row.
LaunchConfig row_config(Index rows, const RowPlan& plan);
// A warp for each of so many rows.
LaunchConfig warp_row_config(Index rows);

// Ranks of `count` positions: a block for some positions and a chunk of those that they are compared with.
constexpr int kRankThreads = 256;
constexpr int kRankChunk = 1024;
LaunchConfig rank_config(Index count);
// Sums over runs of equal tokens: a block for each position, where a run may begin, and each strip of columns, of which
// it sums a pack a thread.
constexpr int kRunThreads = 256;
LaunchConfig run_config(Index count, Index strips, Index bytes_per_thread);

// Attention in tiles: a block holds kTileRows rows of one kind, queries or keys, and `passing` rows of the other kind
// at a time.
constexpr int kAttentionThreads = 128;
constexpr int kTileRows = 64;

constexpr Index kFlagBytes = 16;  // one int a warp
template <class A>
constexpr int kRowPadding = static_cast<int>(16 / sizeof(A));
template <class A>
constexpr int kWeightPadding = static_cast<int>(32 / sizeof(A));
// Shared memory, in bytes, for `held` and `passing` rows of tile_columns wide numbers of size s each, and the weights
// between kTileRows and weight_columns of them.
constexpr Index attention_shared_bytes(Index held, Index passing, Index tile_columns, Index weight_columns, Index s) {
  return ((held + passing) * (tile_columns + 16 / s) + kTileRows * (weight_columns + 32 / s)) * s + 2 * kFlagBytes;
}
// A block for each tile of `rows` in each of `heads` (of all sequences, chunks of columns and copies).
LaunchConfig attention_config(Index rows, Index heads, Index shared_bytes);

}  // namespace jnorm::cuda
