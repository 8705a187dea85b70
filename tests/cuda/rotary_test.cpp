#include "cuda/device_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

Tensor table_of(const Kernels& on, const Tensor& garbage, double base, Index first_position) {
  on.rotary_table(base, first_position, garbage);
  return garbage.to(Device::cpu());
}

// Rows 0 ... length - 1 of the table for each of the sequences.
Tensor table_rows_of(Index sequences, Index length) {
  std::vector<std::int32_t> rows;
  for (Index r = 0; r < sequences * length; ++r) rows.push_back(static_cast<std::int32_t>(r % length));
  return indices({sequences * length}, rows);
}

}  // namespace

TEST_CASE("cuda rotary_table: cosines, then sines, as exact as the CPU's at large positions too [ROT.1]") {
  for (const DType dtype : kWideTypes) {
    for (const Index first_position : {Index{0}, Index{1'000'000}}) {
      const Shape shape{9, 6};
      const Tensor right = table_of(cpu(), garbage(shape, DType::float64), 10000.0, first_position);
      const Tensor got = table_of(device_kernels(), garbage_on_device(shape, dtype), 10000.0, first_position);
      // The powers of the base may differ by 2 ulp, which an angle multiplies by the position.
      const double angle = static_cast<double>(first_position + 9) * 2 * machine_epsilon(DType::float64);
      CHECK(distance(got, right) < angle + machine_epsilon(dtype));
    }
  }
}

TEST_CASE("cuda rotary_table: a float32 table is right to its last digit near position 1,000,000") {
  const Tensor table = table_of(device_kernels(), garbage_on_device({1, 4}, DType::float32), 10000.0, 1'000'000);
  CHECK(distance(table, {0.9367521275, -0.9521553682, -0.3499935022, -0.3056143889}) < 1e-7);
}

TEST_CASE("cuda rotary_table: whole radians keep float64's last digits up to position 2^52") {
  for (const Index first_position : {Index{0}, Index{1'000'000}, Index{1} << 52}) {
    const Tensor right = table_of(cpu(), garbage({9, 2}, DType::float64), 1.0, first_position);
    const Tensor got = table_of(device_kernels(), garbage_on_device({9, 2}, DType::float64), 1.0, first_position);
    CHECK(distance(got, right) < 3 * machine_epsilon(DType::float64));
  }
}

TEST_CASE("cuda rotary: turns forwards and back like float64, overwriting or adding, for all copies [ROT.2] [ROT.3]") {
  for (const DType dtype : kFloatingTypes) {
    for (const Index columns : {2, 6, 16}) {
      const Index length = 5, sequences = 2, copies = 3, heads = 2;
      const Tensor table = table_of(cpu(), garbage({length, columns}, statistics_dtype(dtype)), 100.0, 3);
      const Tensor rows = table_rows_of(sequences, length);
      const Tensor x = random({copies, sequences, length, heads * columns}, dtype, 1);
      for (const Turn turn : {Turn::forwards, Turn::backwards}) {
        for (const bool add : {false, true}) {
          const Tensor before = add ? random(x.shape(), dtype, 2) : garbage_like(x);
          const Tensor right = before.to(DType::float64).clone(), y = on_device(before);
          cpu().rotary(turn, x.to(DType::float64), table.to(DType::float64), rows, {right, add});
          device_kernels().rotary(turn, on_device(x), on_device(table), on_device(rows), {y, add});
          CHECK(distance(y, right) < a_few_roundings(dtype));
        }
      }
    }
  }
}
