#include "cuda/device_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

// What sums over rows of a hundred or so lose, and the one rounding of a narrow result.
double rounding_of_sums(DType dtype) { return std::max(a_few_roundings(dtype), tolerance(statistics_dtype(dtype))); }

using Reduce = void (*)(const Kernels&, const Tensor& x, std::uint32_t kept, const Tensor& y);
template <ReduceOp op>
void reduce_by(const Kernels& kernels, const Tensor& x, std::uint32_t kept, const Tensor& y) {
  kernels.reduce(op, x, kept, y);
}
void sum_by(const Kernels& kernels, const Tensor& x, std::uint32_t kept, const Tensor& y) { kernels.sum(x, kept, y); }
void variance_by(const Kernels& kernels, const Tensor& x, std::uint32_t kept, const Tensor& y) {
  kernels.variance(x, kept, static_cast<double>(x.size()) / static_cast<double>(y.size()), y);
}

constexpr Reduce kMax = reduce_by<ReduceOp::max>, kMin = reduce_by<ReduceOp::min>;
constexpr Reduce kL2Norm = reduce_by<ReduceOp::l2_norm>, kLogSumExp = reduce_by<ReduceOp::logsumexp>;
constexpr std::array<Reduce, 6> kReductions{sum_by, kMax, kMin, kL2Norm, kLogSumExp, variance_by};

Shape without(const Shape& shape, std::uint32_t axes) {
  std::vector<Index> sizes;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if ((axes >> axis & 1u) == 0) sizes.push_back(shape[axis]);
  }
  return Shape(std::span<const Index>(sizes));
}

Tensor device_result(Reduce reduce, const Tensor& x, std::uint32_t axes) {
  const Tensor y = garbage_on_device(without(x.shape(), axes), x.dtype());
  reduce(device_kernels(), on_device(x), ~axes, y);
  return y.to(Device::cpu());
}

// The CPU's, in float64 on the same elements.
Tensor right_result(Reduce reduce, const Tensor& x, std::uint32_t axes) {
  const Tensor y = garbage(without(x.shape(), axes), DType::float64);
  reduce(cpu(), x.to(DType::float64), ~axes, y);
  return y;
}

double error_of(Reduce reduce, const Tensor& x, std::uint32_t axes) {
  return distance(device_result(reduce, x, axes), right_result(reduce, x, axes));
}

// Positive, so that sums don't cancel and errors are relative.
Tensor random_positive(const Shape& shape, DType dtype, unsigned seed) {
  const Tensor x = random(shape, DType::float64, seed), y = garbage(shape, DType::float64);
  cpu().unary(UnaryOp::abs, x, y);
  return y.to(dtype);
}

Tensor device_column_sum(const Tensor& x, const Tensor& start, bool add) {
  const Tensor y = on_device(start);
  device_kernels().column_sum(on_device(x), {.tensor = y, .add = add});
  return y.to(Device::cpu());
}

Tensor device_argmax(const Tensor& x, int axis) {
  const Tensor y = Tensor::uninitialized(without(x.shape(), 1u << axis), DType::int32, test_device());
  device_kernels().argmax(on_device(x), axis, y);
  return y.to(Device::cpu());
}
Tensor right_argmax(const Tensor& x, int axis) {
  const Tensor y = Tensor::uninitialized(without(x.shape(), 1u << axis), DType::int32);
  cpu().argmax(x.to(DType::float64), axis, y);
  return y;
}

}  // namespace

TEST_CASE("cuda reduction: every set of axes, at some lengths and every dtype") {
  for (const DType dtype : kFloatingTypes) {
    for (const Index length : {1, 8, 33, 131}) {
      const Tensor x = random({3, 2, length}, dtype, 1);
      for (std::uint32_t axes = 0; axes < 8; ++axes) {
        for (const Reduce reduce : kReductions) {
          CAPTURE(dtype);
          CAPTURE(length);
          CAPTURE(axes);
          CHECK(error_of(reduce, x, axes) < rounding_of_sums(dtype));
        }
      }
    }
  }
}

TEST_CASE("cuda reduction: every set of six axes") {
  const Tensor x = random({2, 3, 1, 2, 3, 2}, DType::float32, 1);
  for (std::uint32_t axes = 0; axes < 64; ++axes) {
    CAPTURE(axes);
    CHECK(error_of(sum_by, x, axes) < tolerance(DType::float32));
    CHECK(error_of(kLogSumExp, x, axes) < tolerance(DType::float32));
    CHECK(error_of(variance_by, x, axes) < tolerance(DType::float32));
  }
}

TEST_CASE("cuda reduction: rows by a group of lanes, by a block, and by several blocks") {
  for (const Index length : {320, 1017, 3584, 4093, 70001}) {
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      const Tensor x = random_positive({3, length}, dtype, 1);
      for (const Reduce reduce : kReductions) {
        CAPTURE(length);
        CHECK(error_of(reduce, x, 0b10) < rounding_of_sums(dtype));
      }
    }
  }
}

TEST_CASE("cuda reduction: columns in one part and in several, wide and narrow") {
  for (const auto& [rows, width] :
       std::vector<std::pair<Index, Index>>{{5, 320}, {3000, 5}, {2500, 64}, {600, 64}, {1, 1017}}) {
    for (const DType dtype : {DType::float32, DType::float16}) {
      const Tensor x = random_positive({2, rows, width}, dtype, 1);
      for (const Reduce reduce : kReductions) {
        CAPTURE(x.shape());
        CHECK(error_of(reduce, x, 0b010) < rounding_of_sums(dtype));
      }
    }
  }
}

TEST_CASE("cuda reduction: more rows than a grid's y axis takes") {
  CHECK(error_of(sum_by, random({70001, 3}, DType::float32, 1), 0b10) < tolerance(DType::float32));
  CHECK(error_of(sum_by, random({70001, 2, 3}, DType::float32, 1), 0b010) < tolerance(DType::float32));
}

TEST_CASE("cuda reduction: offsets beyond 32 bits") {
  if (!on_gpu()) return;  // 10 GB
  constexpr Index length = Index{1} << 30, count = 5 * length;
  const Tensor x = full({5, length}, 1.0, DType::bfloat16, test_device());
  device_kernels().copy_block(on_device(full({1}, 2.0, DType::bfloat16)), {.count = 1, .length = 1, .to = count - 1},
                              x);
  const Tensor rows = garbage_on_device({5}, DType::bfloat16), columns = garbage_on_device({64}, DType::bfloat16);
  device_kernels().reduce(ReduceOp::max, x, 0b01, rows);
  CHECK(rows.values() == std::vector<double>{1, 1, 1, 1, 2});
  device_kernels().reduce(ReduceOp::max, x.reshape({count / 64, 64}), 0b10, columns);
  CHECK(columns.at({0}) == 1.0);
  CHECK(columns.at({63}) == 2.0);
}

TEST_CASE("cuda reduction: over no elements max is -inf, min inf, sum and norm 0, logsumexp -inf") {
  for (const std::uint32_t axes : {0b01u, 0b10u}) {
    const Tensor x = axes == 0b01u ? zeros({0, 3}) : zeros({3, 0});
    CHECK(device_result(kMax, x, axes).values() == std::vector<double>(3, -kInfinity));
    CHECK(device_result(kMin, x, axes).values() == std::vector<double>(3, kInfinity));
    CHECK(device_result(kLogSumExp, x, axes).values() == std::vector<double>(3, -kInfinity));
    CHECK(device_result(sum_by, x, axes).values() == std::vector<double>(3, 0.0));
    CHECK(device_result(kL2Norm, x, axes).values() == std::vector<double>(3, 0.0));
    const Tensor y = garbage_on_device({3}, DType::float32);
    device_kernels().variance(on_device(x), ~axes, 1.0, y);
    CHECK(y.values() == std::vector<double>(3, 0.0));
    device_kernels().variance(on_device(x), ~axes, kNaN, y);
    CHECK(std::isnan(y.at({2})));
  }
  CHECK(device_result(sum_by, zeros({0, 3}), 0b10).size() == 0);
}

TEST_CASE("cuda reduction: NaN wins wherever it stands") {
  for (const Index place : {0, 1, 63, 130, 4999}) {
    std::vector<double> values(5000, 1.0);
    values[static_cast<std::size_t>(place)] = kNaN;
    for (const Shape& shape : {Shape{1, 5000}, Shape{5000, 1}, Shape{1, 5000, 1}}) {
      const Tensor x = tensor(shape, values);
      for (const Reduce reduce : kReductions) CHECK(std::isnan(device_result(reduce, x, ~0u).item()));
    }
    const Tensor columns = tensor({2500, 2}, values);
    CHECK(std::isnan(device_result(kMax, columns, 0b01).values()[static_cast<std::size_t>(place % 2)]));
    CHECK(device_result(kMin, columns, 0b01).values()[static_cast<std::size_t>(1 - place % 2)] == 1.0);
  }
}

TEST_CASE("cuda reduction: a norm survives squares that overflow float32") {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    const Tensor x = tensor({1e20, 1e20}, dtype);
    CHECK(relative_error(device_result(kL2Norm, x, 1).item(), std::sqrt(2.0) * 1e20) < 0.5 * machine_epsilon(dtype));
  }
}

// In one part and in several, along rows and along columns.
TEST_CASE("cuda reduction: a variance far below the mean keeps its digits") {
  const double spread = std::ldexp(1.0, -10);  // what neighbouring float32 numbers at 10,000 differ by
  for (const Index count : {320, 1017, 70001}) {
    std::vector<double> values;
    for (Index i = 0; i < count; ++i) values.push_back(10000 + static_cast<double>(i % 2) * 2 * spread);
    for (const Shape& shape : {Shape{1, count}, Shape{count, 1, 1}}) {
      const Tensor x = tensor(shape, values);
      const double right = right_result(variance_by, x, ~0u).item();
      CHECK(relative_error(device_result(variance_by, x, ~0u).item(), right) < 4 * machine_epsilon(DType::float32));
    }
    std::vector<double> twice;
    for (const double value : values) twice.insert(twice.end(), {value, value});
    const Tensor columns = tensor({count, 2}, twice);
    const double right = right_result(variance_by, columns, 0b01).at({1});
    CHECK(relative_error(device_result(variance_by, columns, 0b01).at({1}), right) <
          4 * machine_epsilon(DType::float32));
  }
}

TEST_CASE("cuda reduction: the variance of 10239 times 256 and one 255, wherever that one stands") {
  const double right = 10239.0 / 10240 / 10240;
  // Means near 256 are rounded to 2^-45 in float64, and the first one with the 255 in it is 1/8 or more below others.
  const double of_states = 2 * std::ldexp(1.0, -45) * 8;
  for (const std::size_t place : {0, 1, 5000, 10239}) {
    std::vector<double> values(10240, 256.0);
    values[place] = 255.0;
    for (const DType dtype : kFloatingTypes) {
      const Tensor x = tensor({1, 10240}, values, dtype);
      CHECK(relative_error(device_result(variance_by, x, 0b10).item(), right) < of_states + 2 * machine_epsilon(dtype));
    }
  }
}

TEST_CASE("cuda reduction: the variance of equal numbers is exactly 0") {
  for (const DType dtype : kFloatingTypes) {
    for (const Shape& shape : {Shape{2, 33}, Shape{2, 4093}, Shape{1, 70001}}) {
      CHECK(device_result(variance_by, full(shape, 1e4 / 3, dtype), 0b10).at({0}) == 0.0);
    }
    CHECK(device_result(variance_by, full({3000, 5}, 1e4 / 3, dtype), 0b01).at({4}) == 0.0);
  }
}

TEST_CASE("cuda reduction: a variance is rounded once, where a sum of squares leaves float16") {
  std::vector<double> values(100000, 1.0);
  for (std::size_t i = 0; i < values.size(); i += 2) values[i] = -1.0;
  CHECK(device_result(variance_by, tensor({100000}, values, DType::float16), 1).item() == 1.0);
}

TEST_CASE("cuda reduction: an infinity makes a variance NaN, and squares beyond float32 make it infinite") {
  for (const Shape& shape : {Shape{1, 600}, Shape{600, 1, 1}}) {
    std::vector<double> values(600, 1.0);
    values[123] = kInfinity;
    CHECK(std::isnan(device_result(variance_by, tensor(shape, values), ~0u).item()));
    values[123] = 1e30;
    CHECK(device_result(variance_by, tensor(shape, values), ~0u).item() == kInfinity);
    CHECK(device_result(variance_by, tensor(shape, values, DType::float64), ~0u).item() ==
          doctest::Approx(1e60 * 599 / 360000));
  }
}

TEST_CASE("cuda reduction: logsumexp of infinities") {
  CHECK(device_result(kLogSumExp, tensor({-kInfinity, -kInfinity}), 1).item() == -kInfinity);
  CHECK(device_result(kLogSumExp, tensor({-kInfinity, 2}), 1).item() == 2.0);
  CHECK(device_result(kLogSumExp, tensor({kInfinity, 2}), 1).item() == kInfinity);
  CHECK(relative_error(device_result(kLogSumExp, tensor({1e4, 1e4}), 1).item(), 1e4 + std::log(2.0)) < 1e-7);
}

TEST_CASE("cuda reduction: 10240 times 256 and one 255 in bfloat16, of which its own sums would lose most") {
  std::vector<double> values(10241, 256.0);
  values.back() = 255.0;
  const double right = 2621440.0;  // 2621695, rounded to bfloat16
  CHECK(device_result(sum_by, tensor({1, 10241}, values, DType::bfloat16), 0b10).item() == right);
  CHECK(device_result(sum_by, tensor({10241, 1, 1}, values, DType::bfloat16), 0b1).item() == right);
  CHECK(device_column_sum(tensor({10241, 1}, values, DType::bfloat16), garbage({1}, DType::bfloat16), false).item() ==
        right);
}

TEST_CASE("cuda reduction: the same bits whatever the order of blocks and threads") {
  for (const Shape& shape : {Shape{2, 70001}, Shape{3000, 5}, Shape{40, 33}}) {
    const Tensor x = random(shape, DType::float32, 1);
    for (const std::uint32_t axes : {0b01u, 0b10u, 0b11u}) {
      for (const Reduce reduce : {sum_by, variance_by}) {
        const Tensor first = device_result(reduce, x, axes);
        for_each_schedule([&] { CHECK(identical(device_result(reduce, x, axes), first)); });
      }
    }
  }
}

TEST_CASE("cuda column_sum: K copies, overwritten or added to, rounded once") {
  for (const DType dtype : kFloatingTypes) {
    for (const auto& [rows, width] : std::vector<std::pair<Index, Index>>{{7, 40}, {300, 3}, {50, 1}, {0, 4}}) {
      const Tensor x = random({2, rows, width}, dtype, 1), start = random({2, width}, dtype, 2);
      const Tensor sums = right_result(sum_by, x, 0b010);
      CHECK(distance(device_column_sum(x, garbage_like(start), false), sums) < rounding_of_sums(dtype));
      std::vector<double> added = start.values();
      for (std::size_t i = 0; i < added.size(); ++i) added[i] += sums.values()[i];
      CHECK(distance(device_column_sum(x, start, true), added) < rounding_of_sums(dtype));
    }
  }
}

TEST_CASE("cuda argmax: along every axis, at every length and dtype") {
  for (const DType dtype : kFloatingTypes) {
    for (const Index length : {1, 7, 33, 1017}) {
      for (int axis = 0; axis < 3; ++axis) {
        const Shape shape = Shape{3, 5, 2}.with_axis(axis, length);
        const Tensor x = random(shape, dtype, 1);
        CHECK(device_argmax(x, axis).values() == right_argmax(x, axis).values());
      }
    }
  }
}

TEST_CASE("cuda argmax: the first of equal elements; NaN is the largest, also the first") {
  CHECK(device_argmax(tensor({1, 3, 3, 2}), 0).item() == 1);
  CHECK(device_argmax(tensor({-kInfinity, -kInfinity}), 0).item() == 0);
  CHECK(device_argmax(tensor({1, kNaN, kInfinity, kNaN}), 0).item() == 1);
  std::vector<double> values(5000, 1.0);
  values[4321] = values[4322] = 2.0;
  CHECK(device_argmax(tensor({5000}, values), 0).item() == 4321);
  CHECK(device_argmax(tensor({5000, 1}, values), 0).item() == 4321);
}

TEST_CASE("cuda reduction: int32 is refused") {
  const Tensor x = on_device(indices({2}, std::array{1, 2})), y = garbage_on_device({}, DType::float32);
  CHECK_THROWS_AS(device_kernels().sum(x, 0, y), Error);
}
