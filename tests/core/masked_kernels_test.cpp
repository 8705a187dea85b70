#include <jnorm/core/operations.hpp>

#include "core/kernel_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

Tensor mask_of(const Shape& shape, const std::vector<std::int32_t>& values) { return indices(shape, values); }

}  // namespace

TEST_CASE("select: keeps what the mask names and writes 0 elsewhere, whatever stands there") {
  for (const DType dtype : kWideTypes) {
    const Tensor x = tensor({{1, kNaN, 3}, {kInfinity, 5, 6}}, dtype);
    CHECK(select(x, mask_of({2, 3}, {1, 0, 1, 0, 1, 0})).values() == std::vector<double>{1, 0, 3, 0, 5, 0});
    CHECK(select(x, mask_of({3}, {0, 0, 1})).values() == std::vector<double>{0, 0, 3, 0, 0, 6});  // repeats
  }
  CHECK(select(zeros({0, 3}), ones({3}, DType::int32)).size() == 0);
  CHECK_THROWS_WITH_AS(select(zeros({2, 3}), ones({2}, DType::int32)), doctest::Contains("the mask [2] doesn't fit"),
                       Error);
}

TEST_CASE("masked_matmul: is the product with the masked elements taken as 0") {
  for (const DType dtype : kWideTypes) {
    const Tensor mask = mask_of({2, 3}, {1, 0, 1, 0, 0, 1});
    const Tensor a = random({4, 2, 3}, dtype, 1), b = random({4, 3, 5}, dtype, 2), c = random({4, 2, 5}, dtype, 3);
    CHECK(distance(masked_matmul(a, b, mask), matmul(select(a, mask), b)) == 0.0);
    CHECK(distance(masked_matmul(a, c, mask, true), matmul(select(a, mask), c, true)) == 0.0);
    CHECK(distance(sampled_matmul(c, random({4, 3, 5}, dtype, 4), mask),
                   select(matmul(c, random({4, 3, 5}, dtype, 4), false, true), mask)) == 0.0);
  }
}

TEST_CASE("masked_matmul: a NaN behind the mask reaches nothing, one in front of it only what it meets") {
  for (const DType dtype : kWideTypes) {
    const Tensor mask = mask_of({2, 2}, {1, 0, 1, 1});
    const Tensor a = tensor({{2, kNaN}, {3, 4}}, dtype), b = tensor({{1, 10}, {kNaN, 100}}, dtype);
    CHECK(distance(masked_matmul(a, b, mask), {2, 20, kNaN, 430}) == 0.0);
    const Tensor b_first = tensor({{kNaN, 10}, {1, 100}}, dtype);
    CHECK(distance(masked_matmul(a, b_first, mask, true), {kNaN, 320, 4, 400}) == 0.0);
    CHECK(distance(sampled_matmul(b, b, mask), {101, 0, kNaN, kNaN}) == 0.0);
  }
}

TEST_CASE("masked_matmul: the operand with fewer batches repeats, with NaN as without") {
  const DType dtype = DType::float64;
  const Tensor mask = mask_of({2, 3}, {1, 0, 1, 0, 0, 1});
  const Tensor one = random({2, 3}, dtype, 1), many = random({4, 3, 5}, dtype, 2);
  Tensor spoilt = many.clone();
  spoilt.mutable_data<double>()[5] = kNaN;  // in the row that the mask hides from the first row of `one`
  const Tensor right = masked_matmul(one, many, mask), got = masked_matmul(one, spoilt, mask);
  CHECK(right.shape() == Shape{4, 2, 5});
  CHECK(distance(got, right) < tolerance(dtype));
}

TEST_CASE("masked_matmul: nothing in, nothing or zeros out") {
  CHECK(masked_matmul(zeros({0, 2, 3}), zeros({0, 3, 4}), ones({2, 3}, DType::int32)).size() == 0);
  CHECK(masked_matmul(zeros({2, 0}), zeros({0, 4}), ones({2, 0}, DType::int32)).values() == std::vector<double>(8));
  CHECK_THROWS_WITH_AS(masked_matmul(zeros({2, 3}), zeros({2, 4}), ones({2, 3}, DType::int32)),
                       doctest::Contains("inner sizes differ in [2, 3] and [2, 4]"), Error);
}

TEST_CASE("select and masked_matmul: results do not depend on the number of threads") {
  const Tensor x = random({600, 8, 8}, DType::float32, 1), y = random({600, 8, 8}, DType::float32, 2);
  std::vector<std::int32_t> values(64);
  for (std::size_t i = 0; i < 64; ++i) values[i] = i % 3 == 0 ? 1 : 0;
  const Tensor mask = mask_of({8, 8}, values);
  CHECK(independent_of_threads([&] { return select(x, mask); }));
  CHECK(independent_of_threads([&] { return masked_matmul(x, y, mask); }));
}
