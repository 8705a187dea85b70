#include "core/kernel_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

Tensor table_of(double base, Index first_position, const Shape& shape, DType dtype) {
  Tensor table = garbage(shape, dtype);
  cpu().rotary_table(base, first_position, table);
  return table;
}

// Each sequence's rows from 0 on.
Tensor table_rows_of(Index batches, Index length) {
  std::vector<std::int32_t> rows;
  for (Index r = 0; r < batches * length; ++r) rows.push_back(static_cast<std::int32_t>(r % length));
  return indices({batches * length}, rows);
}

Tensor rotary(Turn turn, const Tensor& x, const Tensor& table, const Tensor& table_rows) {
  Tensor y = garbage_like(x);
  cpu().rotary(turn, x, table, table_rows, {y});
  return y;
}

// Pair by pair, as a product of complex numbers. x [..., T, heads * d].
std::vector<double> reference(Turn turn, const Tensor& x, Index columns, double base, Index first_position) {
  const std::vector<double> in = x.values();
  std::vector<double> out(in.size());
  const Index length = x.dim(-2), half = columns / 2;
  for (Index i = 0; i < x.size(); ++i) {
    const Index column = i % columns, position = first_position + i / x.row_length() % length;
    if (column >= half) continue;
    const long double angle = static_cast<long double>(position) *
                              std::pow(static_cast<long double>(base), -2.0L * column / columns) *
                              (turn == Turn::forwards ? 1 : -1);
    const auto first = static_cast<std::size_t>(i), second = static_cast<std::size_t>(i + half);
    out[first] = static_cast<double>(std::cos(angle) * in[first] - std::sin(angle) * in[second]);
    out[second] = static_cast<double>(std::sin(angle) * in[first] + std::cos(angle) * in[second]);
  }
  return out;
}

}  // namespace

TEST_CASE("rotary_table: cosines, then sines, of position times base^(-2c/d) [ROT.1]") {
  const Tensor table = table_of(100.0, 1, {2, 4}, DType::float64);
  const std::vector<double> right{std::cos(1.0), std::cos(0.1), std::sin(1.0), std::sin(0.1),
                                  std::cos(2.0), std::cos(0.2), std::sin(2.0), std::sin(0.2)};
  CHECK(distance(table, right) < 1e-15);
}

TEST_CASE("rotary_table: a float32 table is right at large positions too, to its last digit") {
  const Tensor table = table_of(10000.0, 1'000'000, {1, 4}, DType::float32);
  // Angles of 1,000,000 and 10,000 radians.
  CHECK(distance(table, {0.9367521275, -0.9521553682, -0.3499935022, -0.3056143889}) < 1e-7);
}

TEST_CASE("rotary: turns pairs forwards and back, whatever the number of pairs and heads [ROT.2] [ROT.3]") {
  for (const DType dtype : kWideTypes) {
    for (const Index half : kRowLengths) {
      for (const Turn turn : {Turn::forwards, Turn::backwards}) {
        CAPTURE(dtype);
        CAPTURE(half);
        const Index columns = 2 * half;
        const Tensor x = random({2, 3, 3 * columns}, dtype, 1);
        const Tensor y = rotary(turn, x, table_of(500.0, 9, {3, columns}, dtype), table_rows_of(2, 3));
        CHECK(distance(y, reference(turn, x, columns, 500.0, 9)) < tolerance(dtype));
      }
    }
  }
}

TEST_CASE("rotary: several copies are turned by the same rows of the table, in any order") {
  const Tensor table = table_of(10000.0, 0, {5, 4}, DType::float64);
  const Tensor rows = indices({2}, std::vector<std::int32_t>{4, 1}), x = random({3, 2, 4}, DType::float64, 1);
  const Tensor y = rotary(Turn::forwards, x, table, rows);
  for (Index copy = 0; copy < 3; ++copy) {
    CHECK(identical(copy_of(y, copy), rotary(Turn::forwards, copy_of(x, copy), table, rows)));
  }
  CHECK(y.at({0, 0, 0}) == doctest::Approx(std::cos(4.0) * x.at({0, 0, 0}) - std::sin(4.0) * x.at({0, 0, 2})));
  CHECK(y.at({2, 1, 0}) == doctest::Approx(std::cos(1.0) * x.at({2, 1, 0}) - std::sin(1.0) * x.at({2, 1, 2})));
}

TEST_CASE("rotary: adds where the destination says so, and does nothing where nobody wants it") {
  const Tensor table = table_of(10000.0, 3, {2, 6}, DType::float64), rows = table_rows_of(1, 2);
  const Tensor x = random({1, 2, 6}, DType::float64, 1), before = x.clone(), sum = ones({1, 2, 6}, DType::float64);
  std::vector<double> right = rotary(Turn::forwards, x, table, rows).values();
  for (double& value : right) value += 1.0;
  cpu().rotary(Turn::forwards, x, table, rows, {sum, true});
  CHECK(distance(sum, right) < 1e-15);
  cpu().rotary(Turn::forwards, x, table, rows, {});
  CHECK(identical(x, before));
}

TEST_CASE("rotary: no sequence, no position, no column: nothing in, nothing out") {
  for (const Shape& shape : {Shape{0, 2, 4}, Shape{2, 0, 4}, Shape{2, 2, 0}}) {
    const Tensor table = table_of(10000.0, 0, {shape[1], shape[2]}, DType::float32);
    CHECK(rotary(Turn::forwards, zeros(shape), table, table_rows_of(shape[0], shape[1])).size() == 0);
  }
}

TEST_CASE("rotary: results do not depend on the number of threads") {
  const Tensor x = random({8, 500, 64}, DType::float32, 1), rows = table_rows_of(8, 500);
  CHECK(independent_of_threads([&] { return table_of(10000.0, 0, {5000, 32}, DType::float32); }));
  CHECK(independent_of_threads([&] {
    return rotary(Turn::forwards, x, table_of(10000.0, 0, {500, 32}, DType::float32), rows);
  }));
}
