#include <jnorm/cuda/config.hpp>

#include <algorithm>

namespace jnorm::cuda {

LaunchConfig elementwise_config(Index count, int per_thread, const DeviceLimits& limits) {
  constexpr int threads = kElementwiseThreads;
  const Index needed = ceil_divide(count, Index{threads} * per_thread);
  const Index resident = Index{limits.multiprocessors} * (limits.threads_per_multiprocessor / threads);
  return {.blocks_x = std::min(needed, 4 * resident), .threads = threads};
}

LaunchConfig transpose_config(Index x_axis, Index y_axis, Index others, Index element_bytes) {
  return {.blocks_x = ceil_divide(x_axis, kTile) * ceil_divide(y_axis, kTile) * others,
          .threads = 256,
          .shared_bytes = Index{kTile} * kTileRow * element_bytes};
}

namespace {

void cut(ReductionPlan& plan, Index parts, Index multiple) {
  plan.part_length = ceil_divide(ceil_divide(plan.length, parts), multiple) * multiple;
  plan.parts = plan.length == 0 ? 1 : ceil_divide(plan.length, plan.part_length);
}

// A few packs a lane for short rows, a block for long ones or where rows are few, and several blocks for very long
// ones.
void plan_rows(ReductionPlan& plan, int pack_size, Split split) {
  constexpr Index packs_a_lane = 4, long_row = 1024, few_rows = 2048, long_if_few = 128;
  constexpr Index blocks_wanted = 4096, packs_a_block = Index{8} * kReductionThreads;
  const Index packs = ceil_divide(plan.length, pack_size);
  const bool by_block = packs > long_row || (plan.outer < few_rows && packs > long_if_few);
  plan.lanes = by_block ? kReductionThreads : power_of_two_from(ceil_divide(packs, packs_a_lane), 32);
  const Index most_parts = by_block && split == Split::allowed ? packs / packs_a_block : 1;
  cut(plan, std::clamp(blocks_wanted / plan.outer, Index{1}, std::max(most_parts, Index{1})), pack_size);
}

// Some neighbouring columns a block; more rows at once the more there are. Up to a few thousand rows one pass is done
// before a second one could begin; of more, each block has a part.
void plan_columns(ReductionPlan& plan, int pack_size, Split split) {
  constexpr Index blocks_wanted = 4096, rows_a_thread = 8, rows_of_one_pass = 2048;
  const bool in_parts = split == Split::allowed && plan.length > rows_of_one_pass;
  const Index packs = plan.outer * (plan.inner / pack_size);
  const int rows_at_once = power_of_two_from(ceil_divide(plan.length, rows_a_thread), in_parts ? 8 : 32);
  plan.lanes = power_of_two_from(packs, kReductionThreads / rows_at_once);
  const Index tiles = ceil_divide(packs, plan.lanes), groups = kReductionThreads / plan.lanes;
  const Index most_parts = in_parts ? plan.length / (groups * rows_a_thread) : 1;
  cut(plan, std::clamp(blocks_wanted / tiles, Index{1}, std::max(most_parts, Index{1})), 1);
}

}  // namespace

ReductionPlan reduction_plan(Index outer, Index length, Index inner, int pack_size, Split split) {
  ReductionPlan plan{.outer = outer, .length = length, .inner = inner};
  if (inner == 1) {
    plan_rows(plan, pack_size, split);
  } else {
    plan_columns(plan, pack_size, split);
  }
  return plan;
}

LaunchConfig reduction_config(const ReductionPlan& plan, int pack_size, Index state_bytes) {
  LaunchConfig config{.threads = kReductionThreads};
  if (plan.inner == 1) {
    config.blocks_x = std::min(ceil_divide(plan.outer * plan.parts, kReductionThreads / plan.lanes), kMaxBlocksX);
    config.shared_bytes = state_bytes * (kReductionThreads / 32);
  } else {
    config.blocks_x = ceil_divide(plan.outer * (plan.inner / pack_size), plan.lanes) * plan.parts;
    config.shared_bytes = state_bytes * kReductionThreads * pack_size;
  }
  return config;
}

LaunchConfig chunk_config(Index chunks) { return {.blocks_x = chunks, .threads = kChunkThreads}; }

LaunchConfig reducing_chunk_config(Index chunks) {
  LaunchConfig config = chunk_config(chunks);
  config.shared_bytes = Index{sizeof(double)} * (kChunkThreads / 32);
  return config;
}

RowPlan row_plan(Index packs, const RowChoices& choices) {
  for (const int held : choices.warp) {
    if (packs <= Index{kWarpSize} * held) return {RowTeam::warp, choices.warp_threads, held};
  }
  for (const int held : choices.block) {
    if (packs <= Index{choices.block_threads} * held) {
      return {RowTeam::block, whole_warps(ceil_divide(packs, held)), held};
    }
  }
  return {RowTeam::block, kStreamThreads, 0};
}

RowPlan streamed_row_plan(Index packs, int chunk_packs) {
  if (packs <= Index{kWarpSize} * chunk_packs) return {RowTeam::warp, kWarpTeamThreads, 0};
  return {RowTeam::block, whole_warps(std::min<Index>(ceil_divide(packs, chunk_packs), kStreamThreads)), 0};
}

LaunchConfig row_config(Index rows, const RowPlan& plan) {
  return {.blocks_x = ceil_divide(rows, plan.rows_of_block()),
          .threads = plan.block_threads,
          .shared_bytes = plan.team == RowTeam::block ? kReductionBytes : 0};
}

LaunchConfig warp_row_config(Index rows) { return row_config(rows, {RowTeam::warp, kWarpTeamThreads, 0}); }

LaunchConfig rank_config(Index count) {
  return {.blocks_x = ceil_divide(count, kRankThreads),
          .threads = kRankThreads,
          .shared_bytes = Index{kRankChunk} * 4,
          .blocks_y = ceil_divide(count, kRankChunk)};
}

LaunchConfig run_config(Index count, Index strips, Index bytes_per_thread) {
  return {.blocks_x = count,
          .threads = kRunThreads,
          .shared_bytes = kRunThreads * bytes_per_thread,
          .blocks_y = std::min(strips, kMaxBlocksY)};
}

LaunchConfig attention_config(Index rows, Index heads, Index shared_bytes) {
  return {.blocks_x = ceil_divide(rows, kTileRows) * heads, .threads = kAttentionThreads, .shared_bytes = shared_bytes};
}

}  // namespace jnorm::cuda
