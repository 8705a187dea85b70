#include <jnorm/cuda/group_norm_config.hpp>

#include <algorithm>

namespace jnorm::cuda {

std::optional<GroupPlan> group_plan(Index packs, const GroupChoices& choices, const DeviceLimits& limits) {
  for (const int lanes : kFewLanes) {
    if (packs <= lanes) return GroupPlan{.lanes = lanes, .held_packs = 1, .threads = choices.lane_threads};
  }
  for (const int held : choices.warp) {
    if (packs <= Index{kWarpSize} * held) {
      return GroupPlan{.lanes = kWarpSize, .held_packs = held, .threads = choices.lane_threads};
    }
  }
  if (packs <= Index{choices.block_threads} * choices.block) {
    return GroupPlan{
        .lanes = 0, .held_packs = choices.block, .threads = whole_warps(ceil_divide(packs, choices.block))};
  }
  const Index bytes = packs * choices.shared_pack_bytes, most = limits.shared_bytes_per_block - kReductionBytes;
  if (bytes == 0 || bytes > most) return std::nullopt;
  const bool two_blocks = 2 * bytes <= most - kReductionBytes;  // on a multiprocessor
  return GroupPlan{.lanes = 0,
                   .held_packs = 0,
                   .threads = two_blocks ? kMaxThreads / 2 : choices.block_threads,
                   .shared_bytes = bytes};
}

LaunchConfig group_config(Index count, const GroupPlan& plan, Index team_bytes) {
  return {.blocks_x = ceil_divide(count, plan.teams()),
          .threads = plan.threads,
          .shared_bytes = kReductionBytes + plan.shared_bytes + plan.teams() * team_bytes};
}

int lanes_of_channel(Index packs, const GroupPlan& plan) {
  constexpr Index packs_a_lane = 4;
  return power_of_two_from(ceil_divide(packs, packs_a_lane), std::min(kWarpSize, plan.team_threads()));
}

GroupWalk group_walk(Index outer, Index groups, Index copies, const GroupPlan& plan) {
  constexpr Index multiprocessors = 132, resident_threads = 1024, rows_a_team = 4;
  GroupWalk walk{.outer = outer, .across = power_of_two_from(groups, plan.teams()), .tiles = 1, .parts = 1};
  walk.tiles = ceil_divide(groups, walk.across);
  const Index at_once = plan.teams() / walk.across, blocks = multiprocessors * (resident_threads / plan.threads);
  walk.parts = std::clamp<Index>(blocks / (walk.tiles * copies), 1,
                                 std::max<Index>(1, ceil_divide(outer, at_once * rows_a_team)));
  return walk;
}

LaunchConfig group_walk_config(const GroupWalk& walk, Index copies, const GroupPlan& plan, Index thread_bytes) {
  return {.blocks_x = walk.tiles * walk.parts * copies,
          .threads = plan.threads,
          .shared_bytes = kReductionBytes + plan.threads * thread_bytes};
}

}  // namespace jnorm::cuda
