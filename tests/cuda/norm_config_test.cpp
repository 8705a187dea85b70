#include <doctest/doctest.h>

#include <jnorm/cuda/norm_config.hpp>

using namespace jnorm;
using namespace jnorm::cuda;

namespace {

struct ForwardCase {
  Index rows, length;
  int pack, element_bytes;
  RowTeam team;
  int held_packs;
  Index blocks;
  int threads;
};

struct BackwardCase {
  NormBackwardShape shape;
  RowTeam team;
  int held_packs;
  Index parts, blocks;
  int threads;
  Index shared_bytes;
};

}  // namespace

TEST_CASE("norm_forward_choices: a warp for short rows, a block for long ones, in registers where they fit") {
  for (const ForwardCase& c : std::initializer_list<ForwardCase>{
           {5, 1, 1, 4, RowTeam::warp, 8, 2, 128},
           {70001, 256, 4, 4, RowTeam::warp, 2, 17501, 128},
           {70001, 320, 8, 2, RowTeam::warp, 2, 17501, 128},
           {1000, 512, 4, 4, RowTeam::warp, 4, 250, 128},
           {1000, 1024, 4, 4, RowTeam::block, 4, 1000, 64},
           {1000, 1017, 1, 4, RowTeam::block, 8, 1000, 128},
           {1000, 3584, 8, 2, RowTeam::block, 4, 1000, 128},
           {1000, 4093, 1, 2, RowTeam::block, 8, 1000, 512},
           {1000, 16384, 4, 4, RowTeam::block, 4, 1000, 1024},
           {1000, 16388, 4, 4, RowTeam::block, 0, 1000, 512},
           {1000, 32768, 8, 2, RowTeam::block, 4, 1000, 1024},
           {131072, 131072, 8, 2, RowTeam::block, 0, 131072, 512},
           {1000, 128, 1, 8, RowTeam::warp, 4, 250, 128},
           {1000, 2048, 1, 8, RowTeam::block, 4, 1000, 512},
           {1000, 2049, 1, 8, RowTeam::block, 0, 1000, 512},
       }) {
    CAPTURE(c.length);
    const RowPlan plan = row_plan(c.length / c.pack, norm_forward_choices(c.pack, c.element_bytes));
    CHECK(plan.team == c.team);
    CHECK(plan.held_packs == c.held_packs);
    CHECK(row_config(c.rows, plan).blocks_x == c.blocks);
    CHECK(row_config(c.rows, plan).threads == c.threads);
  }
}

TEST_CASE("norm_backward_config: parts, blocks and shared memory follow from the shape") {
  for (const BackwardCase& c : std::initializer_list<BackwardCase>{
           // rows, length, copies, pack, element_bytes, wide_bytes, column_sums
           {{1, 1, 1, 1, 4, 4, 2}, RowTeam::warp, 8, 1, 1, 256, 1024 + 64},
           {{65536, 256, 1, 8, 2, 4, 2}, RowTeam::warp, 2, 396, 396, 256, 1024 + 16384},
           {{65536, 1024, 1, 8, 2, 4, 2}, RowTeam::warp, 4, 264, 264, 256, 1024 + 65536},
           {{8192, 4096, 1, 8, 2, 4, 2}, RowTeam::block, 2, 528, 528, 256, 1024 + 32768},
           {{8192, 4096, 1, 8, 2, 4, 1}, RowTeam::block, 2, 528, 528, 256, 1024 + 16384},
           {{8192, 4096, 1, 4, 4, 4, 2}, RowTeam::block, 2, 264, 264, 512, 1024 + 32768},
           {{8192, 16384, 1, 8, 2, 4, 2}, RowTeam::block, 2, 132, 132, 1024, 1024 + 131072},
           {{8192, 16384, 1, 4, 4, 4, 2}, RowTeam::block, 4, 132, 132, 1024, 1024 + 131072},
           {{8192, 32768, 1, 8, 2, 4, 2}, RowTeam::block, 0, 528, 8192, 512, 1024},
           {{100, 4096, 1, 8, 2, 4, 2}, RowTeam::block, 2, 25, 25, 256, 1024 + 32768},
           {{8192, 4096, 4, 8, 2, 4, 2}, RowTeam::block, 2, 132, 528, 256, 1024 + 32768},
           {{8192, 4096, 1000, 8, 2, 4, 2}, RowTeam::block, 2, 1, 1000, 256, 1024 + 32768},
           {{8192, 4096, 1, 8, 2, 4, 0}, RowTeam::block, 2, 8192, 8192, 256, 1024},
           {{8192, 4093, 1, 1, 2, 4, 2}, RowTeam::block, 8, 264, 264, 512, 1024 + 32744},
           {{8192, 128, 1, 1, 8, 8, 2}, RowTeam::warp, 4, 256, 256, 256, 1024 + 16384},
       }) {
    CAPTURE(c.shape.rows);
    CAPTURE(c.shape.length);
    CAPTURE(c.shape.copies);
    const NormBackwardConfig config = norm_backward_config(c.shape, DeviceLimits{});
    CHECK(config.plan.team == c.team);
    CHECK(config.plan.held_packs == c.held_packs);
    CHECK(config.parts == c.parts);
    CHECK(config.launch.blocks_x == c.blocks);
    CHECK(config.launch.threads == c.threads);
    CHECK(config.launch.shared_bytes == c.shared_bytes);
  }
}

TEST_CASE("norm_backward_config: rows whose sums a device's shared memory doesn't hold are streamed") {
  const DeviceLimits small{.multiprocessors = 40, .threads_per_multiprocessor = 1024, .shared_bytes_per_block = 65536};
  CHECK(norm_backward_config({8192, 16384, 1, 8, 2, 4, 2}, small).plan.held_packs == 0);
  CHECK(norm_backward_config({8192, 1024, 1, 8, 2, 4, 2}, small).plan.team == RowTeam::block);  // of eight rows at once
}

TEST_CASE("norm_backward_config: as many parts on a smaller device, which then adds in the same order") {
  const DeviceLimits small{.multiprocessors = 40, .threads_per_multiprocessor = 1024, .shared_bytes_per_block = 65536};
  const NormBackwardShape shape{8192, 1024, 1, 8, 2, 4, 1};
  CHECK(norm_backward_config(shape, small).parts == norm_backward_config(shape, DeviceLimits{}).parts);
}

TEST_CASE("column_part_count: enough blocks for a GPU, but eight rows a part") {
  CHECK(column_part_count(1, 1) == 1);
  CHECK(column_part_count(1000, 4) == 125);
  CHECK(column_part_count(65536, 4) == 528);
  CHECK(column_part_count(65536, 100000) == 1);
}

TEST_CASE("column_parts_config: a warp for four parts, up to a whole block") {
  CHECK(column_parts_config(128, 2, 1, 1, 4).threads == 32);
  CHECK(column_parts_config(128, 2, 1, 9, 4).threads == 96);
  CHECK(column_parts_config(128, 2, 3, 528, 4).threads == 1024);
  CHECK(column_parts_config(128, 2, 3, 528, 4).blocks_x == 768);
  CHECK(column_parts_config(128, 2, 3, 528, 8).shared_bytes == 8192);
}
