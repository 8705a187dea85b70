#include <jnorm/cuda/norm_config.hpp>

#include <algorithm>

namespace jnorm::cuda {

namespace {

constexpr int kWarp = 32;

int whole_warps(Index threads) { return static_cast<int>(ceil_divide(threads, kWarp)) * kWarp; }

// How many parts rows are cut into: enough for a GPU of 132 multiprocessors that has `resident` blocks on each, but no
// more than that parts have four rows for each of a block's `teams`, since a part's sums cost as much as five rows.
// The device's own size is left out of it, so that all give the same bits.
Index part_count(Index rows, Index copies, int teams, int resident) {
  constexpr Index multiprocessors = 132;
  const Index most = std::max<Index>(1, multiprocessors * resident / std::max<Index>(1, copies));
  return std::clamp<Index>(ceil_divide(rows, Index{4} * teams), 1, most);
}

}  // namespace

NormForwardConfig norm_forward_config(Index rows, Index packs, int pack, int element_bytes) {
  constexpr int warp_threads = 128, warps = warp_threads / kWarp;
  const bool single = pack == 1;  // of odd lengths there are fewer variants
  const int held = single && element_bytes < 8 ? 8 : 4, threads = single ? kMaxThreads / 2 : kMaxThreads;
  if (packs <= Index{kWarp} * held) {
    return {.team = RowTeam::warp,
            .held_packs = !single && packs <= Index{kWarp} * 2 ? 2 : held,
            .launch = {.blocks_x = ceil_divide(rows, warps), .threads = warp_threads}};
  }
  if (packs <= Index{threads} * held) {
    return {
        .team = RowTeam::block,
        .held_packs = held,
        .launch = {
            .blocks_x = rows, .threads = whole_warps(ceil_divide(packs, held)), .shared_bytes = kReduceScratchBytes}};
  }
  return {.team = RowTeam::long_row,
          .held_packs = 0,
          .launch = {.blocks_x = rows, .threads = kLongRowThreads, .shared_bytes = kReduceScratchBytes}};
}

NormBackwardConfig norm_backward_config(const NormBackwardShape& shape, const DeviceLimits& limits) {
  constexpr int warp_threads = 256, warps = warp_threads / kWarp, resident_threads = 1024;
  const bool single = shape.pack == 1;
  const Index packs = shape.length / shape.pack;
  const int most_held = single && shape.element_bytes < 8 ? 8 : 4,
            most_threads = single ? kMaxThreads / 2 : kMaxThreads;
  // Narrow elements, widened, leave a block of so many threads no registers for more.
  const int block_holds = !single && shape.element_bytes < 4 ? 2 : most_held;
  const auto shared_bytes = [&](int teams) {
    return kReduceScratchBytes + Index{teams} * shape.column_sums * shape.length * shape.wide_bytes;
  };
  if (packs <= Index{kWarp} * most_held && shared_bytes(warps) <= limits.shared_bytes_per_block) {
    const int held = !single && packs <= Index{kWarp} * 2 ? 2 : most_held;
    const Index parts = shape.column_sums == 0 ? ceil_divide(shape.rows, warps)
                                               : part_count(shape.rows, shape.copies, warps, held == 2 ? 3 : 2);
    return {.team = RowTeam::warp,
            .held_packs = held,
            .parts = parts,
            .launch = {.blocks_x = parts * shape.copies, .threads = warp_threads, .shared_bytes = shared_bytes(warps)}};
  }
  if (packs <= Index{most_threads} * block_holds && shared_bytes(1) <= limits.shared_bytes_per_block) {
    const int held = !single && packs <= Index{most_threads} * 2 ? 2 : block_holds;
    const int threads = whole_warps(ceil_divide(packs, held));
    const Index parts = shape.column_sums == 0
                            ? shape.rows
                            : part_count(shape.rows, shape.copies, 1, std::max(1, resident_threads / threads));
    return {.team = RowTeam::block,
            .held_packs = held,
            .parts = parts,
            .launch = {.blocks_x = parts * shape.copies, .threads = threads, .shared_bytes = shared_bytes(1)}};
  }
  return {.team = RowTeam::long_row,
          .held_packs = 0,
          .parts = part_count(shape.rows, shape.copies, 1, 4),
          .launch = {
              .blocks_x = shape.rows * shape.copies, .threads = kLongRowThreads, .shared_bytes = kReduceScratchBytes}};
}

Index column_part_count(Index rows, Index tiles) {
  constexpr Index blocks_wanted = Index{132} * 16, rows_a_part = 8;
  return std::clamp<Index>(ceil_divide(rows, rows_a_part), 1, std::max<Index>(1, blocks_wanted / tiles));
}

LaunchConfig column_parts_config(Index tiles, Index sums, Index copies, Index parts, int wide_bytes) {
  const int threads = kWarp * static_cast<int>(std::clamp<Index>(ceil_divide(parts, 4), 1, kMaxThreads / kWarp));
  return {.blocks_x = tiles * sums * copies, .threads = threads, .shared_bytes = Index{threads} * wide_bytes};
}

}  // namespace jnorm::cuda
