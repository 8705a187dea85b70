#include <jnorm/cuda/channel_norm_config.hpp>

#include <algorithm>

namespace jnorm::cuda {

ColumnWalk column_walk(Index rows, Index packs, Index copies) {
  constexpr int most_lanes = 128;
  constexpr Index blocks_wanted = Index{132} * 2, rows_a_thread = 4;
  ColumnWalk walk{.lanes = power_of_two_from(packs, most_lanes), .tiles = 1, .parts = 1};
  walk.tiles = ceil_divide(packs, walk.lanes);
  const Index at_once = kColumnWalkThreads / walk.lanes;
  walk.parts = std::clamp<Index>(blocks_wanted / std::max<Index>(1, walk.tiles * copies), 1,
                                 std::max<Index>(1, ceil_divide(rows, at_once * rows_a_thread)));
  return walk;
}

LaunchConfig column_walk_config(const ColumnWalk& walk, Index copies, Index state_bytes) {
  return {.blocks_x = walk.tiles * walk.parts * copies,
          .threads = kColumnWalkThreads,
          .shared_bytes = kColumnWalkThreads * state_bytes};
}

LineWalk line_walk(Index lines, Index length, int pack) {
  constexpr Index warp = 32, packs_a_lane = 32;
  LineWalk walk{.lines = lines, .length = length, .segments = 1, .segment = warp * packs_a_lane * pack};
  walk.segments = std::max<Index>(1, ceil_divide(length, walk.segment));
  return walk;
}

LaunchConfig line_walk_config(const LineWalk& walk, Index copies) {
  return {.blocks_x = ceil_divide(walk.lines * walk.segments * copies, kLineThreads / 32), .threads = kLineThreads};
}

LaunchConfig warp_each_config(Index count) {
  return {.blocks_x = ceil_divide(count, kLineThreads / 32), .threads = kLineThreads};
}

}  // namespace jnorm::cuda
