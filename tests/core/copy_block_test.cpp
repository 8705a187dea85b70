#include <doctest/doctest.h>

#include <core/kernel_check.hpp>
#include <support/close.hpp>

using namespace jnorm;

namespace {

// The columns 1 and 2 of x go to the columns 0 and 1 of y, [2, 3] -> [2, 2].
constexpr BlockCopy kColumns{.count = 2, .length = 2, .from = 1, .from_stride = 3, .to = 0, .to_stride = 2};

}  // namespace

TEST_CASE("copy_block: a block moves, by its strides on either side") {
  Tensor y = zeros({2, 2}, DType::float64);
  test::cpu().copy_block(tensor({{1, 2, 3}, {4, 5, 6}}, DType::float64), kColumns, y);
  CHECK(y == close({2, 3, 5, 6}, 0.0));
}

TEST_CASE("copy_block: the rest of y stays") {
  Tensor y = ones({5}, DType::float64);
  test::cpu().copy_block(tensor({7, 8}, DType::float64),
                         {.count = 2, .length = 1, .from_stride = 1, .to = 1, .to_stride = 2}, y);
  CHECK(y == close({1, 7, 1, 8, 1}, 0.0));
}

TEST_CASE("copy_block: adds if it is asked to, in every floating-point dtype") {
  BlockCopy block = kColumns;
  block.add = true;
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::float16}) {
    Tensor y = ones({2, 2}, dtype);
    test::cpu().copy_block(tensor({{1, 2, 3}, {4, 5, 6}}, dtype), block, y);
    CHECK(y == close({3, 4, 6, 7}, 0.0));
  }
}

TEST_CASE("copy_block: a source stride of 0 repeats, and indices move too") {
  Tensor y = indices({3}, std::vector<std::int32_t>{0, 0, 0});
  test::cpu().copy_block(indices({1}, std::vector<std::int32_t>{9}), {.count = 2, .length = 1, .to = 0, .to_stride = 2},
                         y);
  CHECK(y == close({9, 0, 9}, 0.0));
}
