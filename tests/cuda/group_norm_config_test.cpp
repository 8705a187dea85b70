#include <doctest/doctest.h>

#include <jnorm/cuda/group_norm_config.hpp>

using namespace jnorm;
using namespace jnorm::cuda;

namespace {

struct PlanCase {
  Index length;
  int pack, element_bytes;
  int lanes, held_packs, threads;
};

GroupPlan plan_of(Index packs, const GroupChoices& choices) {
  return group_plan(packs, choices, DeviceLimits{}).value();
}

}  // namespace

TEST_CASE("group_plan: a few lanes, a warp or a block hold a group in registers, or shared memory does") {
  for (const PlanCase& c : std::initializer_list<PlanCase>{
           {3, 1, 4, 4, 1, 128},      {8, 1, 2, 8, 1, 128},     {9, 1, 2, 32, 8, 128},     {256, 1, 4, 32, 8, 128},
           {257, 1, 4, 0, 8, 64},     {8192, 1, 4, 0, 8, 1024}, {8, 8, 2, 2, 1, 128},      {16, 8, 2, 2, 1, 128},
           {24, 8, 2, 4, 1, 128},     {64, 8, 2, 8, 1, 128},    {72, 8, 2, 32, 2, 128},    {512, 8, 2, 32, 2, 128},
           {520, 8, 2, 32, 4, 128},   {1032, 8, 2, 0, 4, 64},   {6272, 8, 2, 0, 4, 224},   {6272, 4, 4, 0, 4, 416},
           {16384, 4, 4, 0, 4, 1024}, {16388, 4, 4, 0, 0, 512}, {32768, 8, 2, 0, 4, 1024}, {32776, 8, 2, 0, 0, 512},
           {57600, 4, 4, 0, 0, 1024}, {4096, 1, 8, 0, 4, 1024}}) {
    CAPTURE(c.length);
    CAPTURE(c.pack);
    const auto plan = group_plan(c.length / c.pack, group_forward_choices(c.pack, c.element_bytes), DeviceLimits{});
    REQUIRE(plan);
    CHECK(plan->lanes == c.lanes);
    CHECK(plan->held_packs == c.held_packs);
    CHECK(plan->threads == c.threads);
  }
}

TEST_CASE("group_plan: the longest groups that fit on chip") {
  const auto fits = [](Index packs, const GroupChoices& choices) {
    return group_plan(packs, choices, DeviceLimits{}).has_value();
  };
  CHECK(fits(14464, group_forward_choices(8, 2)));  // 226 KB of x
  CHECK(!fits(14465, group_forward_choices(8, 2)));
  CHECK(fits(7232, group_backward_choices(4, 4)));  // and half as much beside dy
  CHECK(!fits(7233, group_backward_choices(4, 4)));
  CHECK(fits(1024, group_rows_choices(8, 2)));
  CHECK(!fits(1025, group_rows_choices(8, 2)));
  CHECK(fits(8192, group_forward_choices(1, 4)));
  CHECK(!fits(8193, group_forward_choices(1, 4)));
  CHECK(fits(3072, group_backward_choices(1, 8)));
  CHECK(!fits(3073, group_backward_choices(1, 8)));
}

TEST_CASE("group_plan: a block has fewer threads for x and dy, and still fewer for narrow elements") {
  CHECK(plan_of(2048, group_backward_choices(8, 2)).threads == 512);
  CHECK(plan_of(2049, group_backward_choices(8, 2)).held_packs == 0);
  CHECK(plan_of(7000, group_backward_choices(8, 2)).threads == 512);
  CHECK(plan_of(7000, group_backward_choices(4, 4)).threads == 768);
}

TEST_CASE("group_config: teams that share a block, each with its shared memory, or a block for each group") {
  const GroupChoices choices = group_forward_choices(4, 4);
  CHECK(group_config(100, plan_of(8, choices)).blocks_x == 7);  // of 16 teams
  CHECK(group_config(100, plan_of(64, choices)).blocks_x == 25);
  CHECK(group_config(100, plan_of(1000, choices)).blocks_x == 100);
  CHECK(group_config(100, plan_of(64, choices), 512).shared_bytes == kReductionBytes + Index{4} * 512);
}

TEST_CASE("lanes_of_channel: four packs a lane, in no more lanes than hold a group") {
  const GroupChoices choices = group_backward_choices(4, 4);
  CHECK(lanes_of_channel(1, plan_of(1000, choices)) == 1);
  CHECK(lanes_of_channel(9, plan_of(1000, choices)) == 4);
  CHECK(lanes_of_channel(98, plan_of(1000, choices)) == 32);
  CHECK(lanes_of_channel(4000, plan_of(4000, choices)) == 32);
  CHECK(lanes_of_channel(8, plan_of(8, choices)) == 2);
}

TEST_CASE("group_walk: groups side by side, several rows at once, and parts of the rows for the blocks of a GPU") {
  const GroupPlan few = plan_of(2, group_rows_choices(8, 2));  // 128 teams a block
  GroupWalk walk = group_walk(65536, 32, 1, few);
  CHECK(walk.across == 32);
  CHECK(walk.tiles == 1);
  CHECK(walk.parts == 528);
  walk = group_walk(65536, 129, 3, few);
  CHECK(walk.across == 128);
  CHECK(walk.tiles == 2);
  CHECK(walk.parts == 88);
  CHECK(group_walk(5, 32, 1, few).parts == 1);
  CHECK(group_walk(65536, 100000, 1, few).parts == 1);
  CHECK(group_walk(65536, 3, 1, few).across == 4);
  const GroupPlan block = plan_of(1000, group_rows_choices(8, 2));
  CHECK(group_walk(65536, 3, 1, block).across == 1);
  CHECK(group_walk(65536, 3, 1, block).tiles == 3);
  CHECK(group_walk_config(walk, 3, few, 32).blocks_x == 2 * 88 * 3);
  CHECK(group_walk_config(walk, 3, few, 32).shared_bytes == kReductionBytes + Index{256} * 32);
}
