#include <doctest/doctest.h>

#include <jnorm/cuda/channel_norm_config.hpp>

using namespace jnorm;
using namespace jnorm::cuda;

namespace {

struct ColumnCase {
  Index rows, packs, copies;
  int lanes;
  Index tiles, parts;
};

}  // namespace

TEST_CASE("column_walk: lanes across the columns, and parts of the rows for the blocks that a GPU has") {
  for (const ColumnCase& c : std::initializer_list<ColumnCase>{
           {1, 1, 1, 1, 1, 1},
           {65536, 8, 1, 8, 1, 256},
           {1000000, 8, 1, 8, 1, 264},
           {65536, 128, 1, 128, 1, 264},
           {65536, 129, 1, 128, 2, 132},
           {65536, 100000, 1, 128, 782, 1},
           {65536, 128, 100, 128, 1, 2},
           {5, 3, 1, 4, 1, 1},
       }) {
    CAPTURE(c.rows);
    CAPTURE(c.packs);
    const ColumnWalk walk = column_walk(c.rows, c.packs, c.copies);
    CHECK(walk.lanes == c.lanes);
    CHECK(walk.tiles == c.tiles);
    CHECK(walk.parts == c.parts);
  }
}

TEST_CASE("column_walk_config: a block for each tile of each part of each copy") {
  const LaunchConfig config = column_walk_config(column_walk(65536, 129, 3), 3, 24);
  CHECK(config.blocks_x == 2 * 44 * 3);
  CHECK(config.threads == 512);
  CHECK(config.shared_bytes == 12288);
}

TEST_CASE("line_walk: a warp for each line, and several for long ones") {
  CHECK(line_walk(10, 49, 1).segments == 1);
  CHECK(line_walk(10, 1024, 1).segments == 1);
  CHECK(line_walk(10, 1025, 1).segments == 2);
  CHECK(line_walk(10, 1 << 20, 8).segments == 128);
  CHECK(line_walk_config(line_walk(10, 1025, 1), 3).blocks_x == 15);
  CHECK(warp_each_config(9).blocks_x == 3);
}
