#include <jnorm/core/tensor.hpp>

#include <doctest/doctest.h>

#include <jnorm/core/operations.hpp>

using namespace jnorm;
using doctest::Contains;

TEST_CASE("Tensor: an undefined one has no elements to read, copy, convert or add") {
  const Tensor none;
  CHECK_THROWS_WITH_AS(none.data<float>(), Contains("got an undefined one"), Error);
  CHECK_THROWS_WITH_AS(none.values(), Contains("got an undefined one"), Error);
  CHECK_THROWS_WITH_AS(none.at({}), Contains("got an undefined one"), Error);
  CHECK_THROWS_WITH_AS(none.clone(), Contains("got an undefined one"), Error);
  CHECK_THROWS_WITH_AS(none.to(DType::float64), Contains("got an undefined one"), Error);
  CHECK_THROWS_WITH_AS(add(none, none), Contains("got an undefined one"), Error);
  CHECK_THROWS_WITH_AS(exp(none), Contains("got an undefined one"), Error);
}

TEST_CASE("Tensor: its first rows are a view of them") {
  const Tensor x = tensor({{1, 2}, {3, 4}, {5, 6}});
  const Tensor rows = x.first_rows(2);
  CHECK(rows.shape() == Shape{2, 2});
  CHECK(rows.values() == std::vector<double>{1, 2, 3, 4});
  CHECK(rows.shares_storage_with(x));
  CHECK_THROWS_WITH_AS(x.first_rows(4), "first_rows: [3, 2] has no 4 rows", Error);
}
