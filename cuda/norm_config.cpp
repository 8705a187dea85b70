#include <jnorm/cuda/norm_config.hpp>

#include <algorithm>

namespace jnorm::cuda {

namespace {

// How many parts rows are cut into: enough for a GPU of 132 multiprocessors that has `resident` blocks on each, but no
// more than that parts have four rows for each of a block's `teams`, since a part's sums cost as much as five rows.
// The device's own size is left out of it, so that all give the same bits.
Index part_count(Index rows, Index copies, int teams, int resident) {
  constexpr Index multiprocessors = 132;
  const Index most = std::max<Index>(1, multiprocessors * resident / std::max<Index>(1, copies));
  return std::clamp<Index>(ceil_divide(rows, Index{4} * teams), 1, most);
}

}  // namespace

NormBackwardConfig norm_backward_config(const NormBackwardShape& shape, const DeviceLimits& limits) {
  constexpr int resident_threads = 1024, resident_streams = 4;
  const auto shared_bytes = [&](int rows_of_block) {
    return kReductionBytes + Index{rows_of_block} * shape.column_sums * shape.length * shape.wide_bytes;
  };
  RowChoices choices = norm_backward_choices(shape.pack, shape.element_bytes);
  if (shared_bytes(choices.warp_threads / kWarpSize) > limits.shared_bytes_per_block) choices.warp = {};
  if (shared_bytes(1) > limits.shared_bytes_per_block) choices.block = {};
  const RowPlan plan = row_plan(shape.length / shape.pack, choices);

  const int rows_of_block = plan.rows_of_block();
  const auto parts_of = [&](int resident) { return part_count(shape.rows, shape.copies, rows_of_block, resident); };
  if (plan.held_packs == 0) {
    return {.plan = plan, .parts = parts_of(resident_streams), .launch = row_config(shape.rows * shape.copies, plan)};
  }
  const int resident = plan.team == RowTeam::warp ? resident_warp_blocks(plan.held_packs)
                                                  : std::max(1, resident_threads / plan.block_threads);
  const Index parts = shape.column_sums == 0 ? ceil_divide(shape.rows, rows_of_block) : parts_of(resident);
  return {.plan = plan,
          .parts = parts,
          .launch = {.blocks_x = parts * shape.copies,
                     .threads = plan.block_threads,
                     .shared_bytes = shared_bytes(rows_of_block)}};
}

Index column_part_count(Index rows, Index tiles) {
  constexpr Index blocks_wanted = Index{132} * 16, rows_a_part = 8;
  return std::clamp<Index>(ceil_divide(rows, rows_a_part), 1, std::max<Index>(1, blocks_wanted / tiles));
}

LaunchConfig column_parts_config(Index tiles, Index sums, Index copies, Index parts, int wide_bytes) {
  const int threads =
      kWarpSize * static_cast<int>(std::clamp<Index>(ceil_divide(parts, 4), 1, kMaxThreads / kWarpSize));
  return {.blocks_x = tiles * sums * copies, .threads = threads, .shared_bytes = Index{threads} * wide_bytes};
}

}  // namespace jnorm::cuda
