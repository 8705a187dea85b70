#pragma once

// Launch configurations of the norms over channels: pure functions of shapes.

#include <jnorm/cuda/config.hpp>

namespace jnorm::cuda {

// How blocks walk down the columns of [rows, packs]: `lanes` threads side by side, a power of two, and several rows at
// once; tiles of lanes across, and in each so many parts of the rows.
constexpr int kColumnWalkThreads = 512;
struct ColumnWalk {
  int lanes;
  Index tiles, parts;
};
ColumnWalk column_walk(Index rows, Index packs, Index copies);
LaunchConfig column_walk_config(const ColumnWalk& walk, Index copies, Index state_bytes);

// How warps walk along lines of `length` elements: a segment each.
constexpr int kLineThreads = 128;
struct LineWalk {
  Index lines, length;
  Index segments, segment;  // of a line, and their length in elements
};
LineWalk line_walk(Index lines, Index length, int pack);
LaunchConfig line_walk_config(const LineWalk& walk, Index copies);

// A warp for each of so many sums.
LaunchConfig warp_each_config(Index count);

}  // namespace jnorm::cuda
