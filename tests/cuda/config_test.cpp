#include <initializer_list>
#include <tuple>

#include <doctest/doctest.h>

#include <jnorm/cuda/config.hpp>

using namespace jnorm;
using namespace jnorm::cuda;

namespace {

struct ReductionCase {
  Index outer, length, inner;
  int pack_size;
  Split split;
  int lanes;
  Index parts, part_length, blocks;
};

}  // namespace

TEST_CASE("elementwise_config: as many blocks as elements need, or as stay resident four times") {
  const DeviceLimits limits;
  CHECK(elementwise_config(0, 4, limits).blocks_x == 0);
  CHECK(elementwise_config(1, 4, limits).blocks_x == 1);
  CHECK(elementwise_config(1025, 4, limits).blocks_x == 2);
  CHECK(elementwise_config(Index{1} << 40, 4, limits).blocks_x == 4 * 132 * 8);
}

TEST_CASE("reduction_plan: lanes, parts and blocks of rows and columns") {
  for (const ReductionCase& c : std::initializer_list<ReductionCase>{
           // Rows: a lane, some lanes, a warp, a block, several blocks a row.
           {70000, 1, 1, 4, Split::allowed, 1, 1, 4, 274},
           {70000, 64, 1, 4, Split::allowed, 4, 1, 64, 1094},
           {70000, 320, 1, 4, Split::allowed, 32, 1, 320, 8750},
           {16384, 4096, 1, 4, Split::allowed, 32, 1, 4096, 2048},
           {16384, 4100, 1, 4, Split::allowed, 256, 1, 4100, 16384},
           {100, 4096, 1, 8, Split::allowed, 256, 1, 4096, 100},
           {4, 131072, 1, 4, Split::allowed, 256, 16, 8192, 64},
           {1, 67108864, 1, 4, Split::allowed, 256, 4096, 16384, 4096},
           {1, 67108864, 1, 4, Split::no, 256, 1, 67108864, 1},
           {3, 0, 1, 4, Split::allowed, 1, 1, 0, 1},
           // Columns: side by side where there are few rows, in parts where there are many.
           {1, 5, 1024, 4, Split::allowed, 256, 1, 5, 1},
           {1, 1024, 128, 4, Split::allowed, 8, 1, 1024, 4},
           {1, 32768, 1024, 4, Split::allowed, 32, 512, 64, 4096},
           {1, 32768, 3, 1, Split::allowed, 4, 64, 512, 64},
           {512, 12, 64, 4, Split::allowed, 128, 1, 12, 64},
           {1, 128, 1024, 1, Split::no, 16, 1, 128, 64},
           {1, 0, 1024, 4, Split::allowed, 256, 1, 0, 1},
       }) {
    CAPTURE(c.outer);
    CAPTURE(c.length);
    CAPTURE(c.inner);
    const ReductionPlan plan = reduction_plan(c.outer, c.length, c.inner, c.pack_size, c.split);
    CHECK(plan.lanes == c.lanes);
    CHECK(plan.parts == c.parts);
    CHECK(plan.part_length == c.part_length);
    CHECK(reduction_config(plan, c.pack_size, 4).blocks_x == c.blocks);
  }
}

TEST_CASE("reduction_plan: parts cover the length, the last not empty") {
  for (Index length = 1; length < 2000000; length = length * 3 + 1) {
    for (const Index inner : {1, 4}) {
      const ReductionPlan plan = reduction_plan(2, length, inner, 4, Split::allowed);
      CHECK(plan.part_length * plan.parts >= length);
      CHECK(plan.part_length * (plan.parts - 1) < length);
    }
  }
}

TEST_CASE("reduction_config: more rows than a grid holds are walked over") {
  const ReductionPlan plan = reduction_plan(Index{1} << 40, 1024, 1, 4, Split::allowed);
  CHECK(reduction_config(plan, 4, 4).blocks_x == kMaxBlocksX);
}

TEST_CASE("reduction_config: a place in shared memory for each warp of a row, for each column of a thread") {
  CHECK(reduction_config(reduction_plan(8, 1 << 20, 1, 4, Split::allowed), 4, 8).shared_bytes == 64);
  CHECK(reduction_config(reduction_plan(1, 4096, 1024, 8, Split::allowed), 8, 8).shared_bytes == 16384);
}

TEST_CASE("transpose_config: a block for each tile, counted beyond 32 bits") {
  CHECK(transpose_config(64, 33, 5, 4).blocks_x == 2 * 2 * 5);
  CHECK(transpose_config(64, 33, 5, 4).shared_bytes == 32 * 33 * 4);
  CHECK(transpose_config(Index{1} << 33, 32, 3, 8).blocks_x == 3 * (Index{1} << 28));
  CHECK(transpose_config(64, 33, 0, 4).blocks_x == 0);
}

TEST_CASE("row_plan: a warp, a block or a streaming block, and how many packs of a row each thread holds") {
  constexpr RowChoices choices{.warp = {1, 4, 8}, .block = {4, 8}};
  const auto planned = [&](Index packs) {
    const RowPlan plan = row_plan(packs, choices);
    return std::tuple(plan.team, plan.block_threads, plan.held_packs);
  };
  CHECK(planned(1) == std::tuple(RowTeam::warp, 128, 1));
  CHECK(planned(32) == std::tuple(RowTeam::warp, 128, 1));
  CHECK(planned(80) == std::tuple(RowTeam::warp, 128, 4));
  CHECK(planned(256) == std::tuple(RowTeam::warp, 128, 8));
  CHECK(planned(257) == std::tuple(RowTeam::block, 96, 4));
  CHECK(planned(896) == std::tuple(RowTeam::block, 224, 4));
  CHECK(planned(4096) == std::tuple(RowTeam::block, 1024, 4));
  CHECK(planned(4097) == std::tuple(RowTeam::block, 544, 8));
  CHECK(planned(8192) == std::tuple(RowTeam::block, 1024, 8));
  CHECK(planned(8193) == std::tuple(RowTeam::block, 512, 0));
  for (Index packs = 1; packs <= 8192; ++packs) {
    const RowPlan plan = row_plan(packs, choices);
    CHECK(plan.block_threads / plan.rows_of_block() * plan.held_packs >= packs);
  }
}

TEST_CASE("row_plan: choices that there are no kernels for are passed over") {
  CHECK(row_plan(1, {.warp = {}, .block = {4}}).team == RowTeam::block);
  CHECK(row_plan(1, {.warp = {}, .block = {}}).held_packs == 0);
  CHECK(row_plan(3000, {.warp = {4}, .block = {4}, .block_threads = 512}).held_packs == 0);
}

TEST_CASE("streamed_row_plan: a warp for one chunk, or a block of up to 512 threads") {
  CHECK(streamed_row_plan(0, 4).team == RowTeam::warp);
  CHECK(streamed_row_plan(128, 4).team == RowTeam::warp);
  CHECK(streamed_row_plan(129, 4).block_threads == 64);
  CHECK(streamed_row_plan(129, 4).held_packs == 0);
  CHECK(streamed_row_plan(50257, 8).block_threads == 512);
  CHECK(streamed_row_plan(Index{1} << 40, 8).block_threads == 512);
}

TEST_CASE("row_config: four warps a block, or a block a row, beyond 2^31 elements too") {
  const RowPlan warps{RowTeam::warp, 128, 4}, block{RowTeam::block, 96, 4};
  CHECK(row_config(0, warps).blocks_x == 0);
  CHECK(row_config(65537, warps).blocks_x == 16385);
  CHECK(row_config(65537, block).blocks_x == 65537);
  CHECK(row_config(65537, block).threads == 96);
  CHECK(row_config(65537, block).shared_bytes == kReductionBytes);
  CHECK(row_config(Index{1} << 32, warps).blocks_x == Index{1} << 30);
  CHECK(warp_row_config(9).blocks_x == 3);
  CHECK(warp_row_config(9).threads == 128);
}

TEST_CASE("rank_config and run_config: positions by chunks, and by strips of columns within a grid's y axis") {
  CHECK(rank_config(8192).blocks_x == 32);
  CHECK(rank_config(8193).blocks_y == 9);
  CHECK(run_config(8192, 4, 16).blocks_x == 8192);
  CHECK(run_config(8192, 4, 16).shared_bytes == 4096);
  CHECK(run_config(8192, 100000, 16).blocks_y == 65535);
}

TEST_CASE("attention_config: a block for each tile of each head, in memory that a GPU has") {
  CHECK(attention_config(256, 256, 0).blocks_x == 1024);
  CHECK(attention_config(257, 1, 0).blocks_x == 5);
  CHECK(attention_config(0, 8, 0).blocks_x == 0);
  CHECK(attention_shared_bytes(64, 128, 64, 64, 4) == 192 * 68 * 4 + 64 * 72 * 4 + 32);
  const Index most = DeviceLimits().shared_bytes_per_block;
  CHECK(attention_shared_bytes(128, 128, 64, 64, 4) < most / 2);  // two blocks a multiprocessor
  CHECK(attention_shared_bytes(128, 64, 128, 32, 4) < most);
  CHECK(attention_shared_bytes(128, 64, 32, 32, 8) < most);
}
