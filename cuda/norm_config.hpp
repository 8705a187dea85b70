#pragma once

// Launch configurations of the norms over rows: pure functions of shapes, as those of config.hpp.

#include <jnorm/cuda/config.hpp>

namespace jnorm::cuda {

// Of odd lengths there are fewer kernels. Their packs are single elements, of which a thread may hold more.
constexpr int kSingleBlockThreads = kMaxThreads / 2;
constexpr int most_single_packs(int element_bytes) { return element_bytes < 8 ? 8 : 4; }

// For rows in packs of `pack` elements.
constexpr RowChoices norm_forward_choices(int pack, int element_bytes) {
  const int single = most_single_packs(element_bytes);
  if (pack == 1) return {.warp = {single}, .block = {single}, .block_threads = kSingleBlockThreads};
  return {.warp = {2, 4}, .block = {4}};
}

// Backward, two rows are held and sums are kept. Narrow elements, widened, leave a whole block no registers for more.
constexpr RowChoices norm_backward_choices(int pack, int element_bytes) {
  constexpr int warps_threads = 256;
  const int single = most_single_packs(element_bytes);
  if (pack == 1) {
    return {.warp = {single}, .block = {single}, .block_threads = kSingleBlockThreads, .warp_threads = warps_threads};
  }
  return {.warp = {2, 4}, .block = {2, element_bytes < 4 ? 0 : 4}, .warp_threads = warps_threads};
}
// How many blocks of warps, each of whose threads holds so many packs, have room for their registers side by side.
constexpr int resident_warp_blocks(int held_packs) { return held_packs == 2 ? 3 : 2; }

constexpr int kColumnThreads = 128;

// Backward, with sums over rows of every column: dgamma and dbeta, dgamma, or none.
struct NormBackwardShape {
  Index rows, length, copies;
  int pack, element_bytes, wide_bytes;  // wide_bytes: of an element of the sums
  int column_sums;                      // 0, 1 or 2
};
struct NormBackwardConfig {
  RowPlan plan;
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
