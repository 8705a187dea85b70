#pragma once

// Launch configurations of GroupNorm where a group fits on chip: pure functions of shapes.

#include <array>
#include <optional>

#include <jnorm/cuda/config.hpp>

namespace jnorm::cuda {

// Where a few packs are a group, as few lanes of a warp share it, with a pack each.
constexpr std::array kFewLanes{2, 4, 8};

// The other kernels that there are for groups of one kind: how many packs a thread holds at most, ascending, then 0, if
// a warp shares a group, or a block. A longer group may lie in a block's shared memory.
struct GroupChoices {
  std::array<int, 2> warp;
  int block;
  int block_threads = kMaxThreads;  // at most
  int lane_threads = 128;           // of a block where lanes or warps share groups
  Index shared_pack_bytes = 0;      // of shared memory, for a pack of the group; 0: none is for groups
};

// float64, and channels that packs don't fit, are read one by one.
constexpr GroupChoices group_forward_choices(int pack, int element_bytes) {
  if (pack > 1) return {.warp = {2, 4}, .block = 4, .shared_pack_bytes = 16};
  const int single = element_bytes < 8 ? 8 : 4;
  return {.warp = {single, 0}, .block = single};
}
// x and dy are held, for which a whole block has too few registers, the fewer where narrow elements are widened.
constexpr GroupChoices group_backward_choices(int pack, int element_bytes) {
  GroupChoices choices = group_forward_choices(pack, element_bytes);
  choices.block = 4;
  choices.block_threads = pack > 1 && element_bytes < 4 ? kMaxThreads / 2 : kMaxThreads * 3 / 4;
  choices.shared_pack_bytes *= 2;
  return choices;
}
// The same, and sums of every column.
constexpr GroupChoices group_rows_choices(int pack, int element_bytes) {
  GroupChoices choices = group_backward_choices(pack, element_bytes);
  choices.block = 2;
  choices.block_threads = 512;
  choices.lane_threads = 256;
  choices.shared_pack_bytes = 0;
  return choices;
}

// Who shares a group, and where it lies.
struct GroupPlan {
  int lanes;               // 0: the block
  int held_packs;          // in each thread's registers, at most; 0: the group lies in shared memory
  int threads;             // of a block
  Index shared_bytes = 0;  // for the group

  constexpr int team_threads() const { return lanes > 0 ? lanes : threads; }
  constexpr int teams() const { return threads / team_threads(); }  // of a block
};
// For groups of `packs` packs; nothing if they don't fit on chip.
std::optional<GroupPlan> group_plan(Index packs, const GroupChoices& choices, const DeviceLimits& limits);

// A team for each of `count` groups; beside the group and what its reductions need, each has so many bytes of shared
// memory.
LaunchConfig group_config(Index count, const GroupPlan& plan, Index team_bytes = 0);

// How many lanes add the sums of a channel's `packs` packs: a power of two.
int lanes_of_channel(Index packs, const GroupPlan& plan);

// Blocks walk down the rows of [outer, channels], with teams for neighbouring groups side by side, and for several rows
// at once: tiles of groups across, and in each so many parts of the rows.
struct GroupWalk {
  Index outer;
  int across;  // groups side by side in a block: a power of two
  Index tiles, parts;
};
GroupWalk group_walk(Index outer, Index groups, Index copies, const GroupPlan& plan);
LaunchConfig group_walk_config(const GroupWalk& walk, Index copies, const GroupPlan& plan, Index thread_bytes);

}  // namespace jnorm::cuda
