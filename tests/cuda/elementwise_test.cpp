#include "cuda/device_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

Tensor unary(UnaryOp op, const Tensor& x) {
  const Tensor y = garbage_on_device(x.shape(), x.dtype());
  device_kernels().unary(op, on_device(x), y);
  return y;
}
Tensor binary(BinaryOp op, const Tensor& a, const Tensor& b) {
  const Tensor y = garbage_on_device(a.size() >= b.size() ? a.shape() : b.shape(), a.dtype());
  device_kernels().binary(op, on_device(a), on_device(b), y);
  return y;
}

// The same on the CPU, in float64.
Tensor right_unary(UnaryOp op, const Tensor& x) {
  const Tensor wide = x.to(DType::float64), y = garbage_like(wide);
  cpu().unary(op, wide, y);
  return y;
}
Tensor right_binary(BinaryOp op, const Tensor& a, const Tensor& b) {
  const Tensor left = a.to(DType::float64), right = b.to(DType::float64);
  const Tensor y = garbage_like(left.size() >= right.size() ? left : right);
  cpu().binary(op, left, right, y);
  return y;
}

// In (0, 2): where every function has a value.
Tensor positive(const Shape& shape, DType dtype, unsigned seed) {
  const Tensor x = random(shape, DType::float64, seed), y = garbage_like(x);
  cpu().unary(UnaryOp::abs, x, y);
  return y.to(dtype);
}

constexpr std::array kUnaryOps{UnaryOp::negate,     UnaryOp::exp,    UnaryOp::log,   UnaryOp::sqrt,   UnaryOp::rsqrt,
                               UnaryOp::reciprocal, UnaryOp::square, UnaryOp::tanh,  UnaryOp::abs,    UnaryOp::sign,
                               UnaryOp::erf,        UnaryOp::log1p,  UnaryOp::expm1, UnaryOp::sigmoid};
constexpr std::array kBinaryOps{BinaryOp::add,   BinaryOp::subtract, BinaryOp::multiply, BinaryOp::divide,
                                BinaryOp::power, BinaryOp::maximum,  BinaryOp::minimum,  BinaryOp::maximum_share};

}  // namespace

TEST_CASE("cuda elementwise: every function of one number is float64's, in whole packs and what is left of them") {
  for (const DType dtype : kFloatingTypes) {
    for (const Index size : {1, 8, 1037}) {
      const Tensor x = positive({size}, dtype, 1);
      for (const UnaryOp op : kUnaryOps) {
        CAPTURE(static_cast<int>(op));
        CHECK(distance(unary(op, x), right_unary(op, x)) < a_few_roundings(dtype));
      }
    }
  }
}

TEST_CASE("cuda elementwise: every function of two numbers is float64's") {
  for (const DType dtype : kFloatingTypes) {
    const Tensor a = positive({1037}, dtype, 1), b = positive({1037}, dtype, 2);
    for (const BinaryOp op : kBinaryOps) {
      CAPTURE(static_cast<int>(op));
      CHECK(distance(binary(op, a, b), right_binary(op, a, b)) < a_few_roundings(dtype));
    }
  }
}

TEST_CASE("cuda elementwise: the shorter operand repeats, on either side, whatever its length") {
  for (const DType dtype : kFloatingTypes) {
    for (const Index period : {1, 3, 8, 13, 64}) {
      const Tensor a = random({17, period}, dtype, 1), b = random({period}, dtype, 2);
      CAPTURE(period);
      CHECK(distance(binary(BinaryOp::subtract, a, b), right_binary(BinaryOp::subtract, a, b)) <
            a_few_roundings(dtype));
      CHECK(distance(binary(BinaryOp::subtract, b, a), right_binary(BinaryOp::subtract, b, a)) <
            a_few_roundings(dtype));
    }
  }
}

TEST_CASE("cuda elementwise: a result may take an operand's place") {
  const Tensor y = random({600, 3}, DType::float32, 1), bias = random({3}, DType::float32, 2), place = on_device(y);
  device_kernels().binary(BinaryOp::add, place, on_device(bias), place);
  CHECK(distance(place, right_binary(BinaryOp::add, y, bias)) < a_few_roundings(DType::float32));
  const Tensor x = on_device(tensor({3, 5}));
  device_kernels().binary(BinaryOp::multiply, x, x, x);
  CHECK(distance(x, {9, 25}) == 0.0);
  device_kernels().affine(x, 2.0, 1.0, x);
  CHECK(distance(x, {19, 51}) == 0.0);
}

TEST_CASE("cuda elementwise: a NaN on either side of a maximum or minimum wins") {
  for (const DType dtype : kFloatingTypes) {
    const Tensor a = tensor({kNaN, 1, 3}, dtype), b = tensor({1, kNaN, 2}, dtype);
    CHECK(distance(binary(BinaryOp::maximum, a, b), {kNaN, kNaN, 3}) == 0.0);
    CHECK(distance(binary(BinaryOp::minimum, a, b), {kNaN, kNaN, 2}) == 0.0);
    CHECK(distance(binary(BinaryOp::maximum_share, a, b), {kNaN, kNaN, 1}) == 0.0);
  }
}

TEST_CASE("cuda elementwise: NaN goes through every function of one number") {
  for (const UnaryOp op : kUnaryOps) CHECK(std::isnan(unary(op, tensor({kNaN})).item()));
}

TEST_CASE("cuda elementwise: sigmoid is exact to the digit at both ends") {
  const Tensor y = unary(UnaryOp::sigmoid, tensor({-80, -20, 0, 20, 1000, -1000})).to(Device::cpu());
  CHECK(relative_error(y.at({0}), 1.8048513878454153e-35) < tolerance(DType::float32));
  CHECK(relative_error(y.at({1}), 2.0611536181902037e-9) < tolerance(DType::float32));
  CHECK(distance(y, {0, 0, 0.5, 1, 1, 0}) < 3e-9);
}

TEST_CASE("cuda elementwise: powers, clamp and its slope are float64's, and clamp lets NaN through") {
  for (const DType dtype : kFloatingTypes) {
    const Tensor x = tensor({kNaN, 0.25, 1, 1.5, 2, kInfinity}, dtype), y = garbage_on_device({6}, dtype);
    device_kernels().parametric(ParametricOp::power, on_device(x), 1.5, 0.0, y);
    CHECK(distance(y, {kNaN, 0.125, 1, 1.8371173070873836, 2.8284271247461903, kInfinity}) < a_few_roundings(dtype));
    device_kernels().parametric(ParametricOp::clamp, on_device(x), 0.5, 1.5, y);
    CHECK(distance(y, {kNaN, 0.5, 1, 1.5, 1.5, 1.5}) == 0.0);
    device_kernels().parametric(ParametricOp::clamp_slope, on_device(x), 0.5, 1.5, y);
    CHECK(distance(y, {kNaN, 0, 1, 1, 0, 0}) == 0.0);
  }
}

TEST_CASE("cuda elementwise: affine and accumulate compute in wide numbers and round once") {
  for (const DType dtype : kFloatingTypes) {
    const Tensor x = random({1037}, dtype, 1), y = random({1037}, dtype, 2), sum = on_device(y);
    Tensor right = y.to(DType::float64).clone();
    cpu().accumulate(x.to(DType::float64), 1.0 / 3, right);
    device_kernels().accumulate(on_device(x), 1.0 / 3, sum);
    CHECK(distance(sum, right) < a_few_roundings(dtype));
    device_kernels().affine(on_device(x), 1.0 / 3, 0.7, sum);
    cpu().affine(x.to(DType::float64), 1.0 / 3, 0.7, right);
    CHECK(distance(sum, right) < a_few_roundings(dtype));
  }
}

TEST_CASE("cuda elementwise: 0 times NaN or infinity is NaN") {
  const Tensor x = on_device(tensor({kNaN, kInfinity, 7})), y = on_device(ones({3}));
  device_kernels().accumulate(x, 0.0, y);
  CHECK(distance(y, {kNaN, kNaN, 1}) == 0.0);
}

TEST_CASE("cuda elementwise: comparisons hold for every dtype, and only not_equal for NaN") {
  constexpr std::array ops{CompareOp::less,  CompareOp::less_equal, CompareOp::greater,    CompareOp::greater_equal,
                           CompareOp::equal, CompareOp::not_equal,  CompareOp::logical_and};
  for (const DType dtype : kAllTypes) {
    const double last = dtype == DType::int32 ? 0 : kNaN;
    const Tensor a = tensor({1, 2, 3, 0, last}, dtype), b = tensor({2}, dtype);
    for (const CompareOp op : ops) {
      const Tensor right = Tensor::uninitialized({5}, DType::int32);
      const Tensor y = Tensor::uninitialized({5}, DType::int32, test_device());
      cpu().compare(op, a, b, right);
      device_kernels().compare(op, on_device(a), on_device(b), y);
      CHECK(y.values() == right.values());
    }
  }
}

TEST_CASE("cuda elementwise: where chooses, and never multiplies") {
  const std::vector<std::int32_t> some{1, 0, -1};
  for (const DType dtype : kFloatingTypes) {
    const Tensor a = on_device(tensor({1, kNaN, 3}, dtype)), b = on_device(tensor({kNaN, kInfinity, kNaN}, dtype));
    const Tensor y = garbage_on_device({3}, dtype);
    device_kernels().where(on_device(indices({3}, some)), a, b, y);
    CHECK(distance(y, {1, kInfinity, 3}) == 0.0);
  }
}

TEST_CASE("cuda elementwise: fill rounds a number as the CPU does") {
  for (const DType dtype : kAllTypes) {
    for (const double value : {0.0, 1.0 + 0x1p-8 + 0x1p-40, 1.0 + 0x1p-11 + 0x1p-40, -3.7, 70000.0}) {
      CHECK(identical(full({11}, value, dtype, test_device()).to(Device::cpu()), full({11}, value, dtype)));
    }
  }
}

TEST_CASE("cuda elementwise: a conversion between any two dtypes has the CPU's bits, rounded once") {
  // Halfway between two bfloat16, and float16, and a little beside; subnormal, and at the ends of float16's range.
  const Tensor numbers = tensor({0,
                                 -0.0,
                                 1,
                                 -1.5,
                                 3.999,
                                 1 + 0x1p-8,
                                 1 + 0x1p-8 + 0x1p-40,
                                 1 + 3 * 0x1p-8,
                                 1 + 0x1p-11,
                                 1 + 0x1p-11 + 0x1p-40,
                                 1 + 0x1p-11 - 0x1p-40,
                                 0x1p-24,
                                 0x1p-25,
                                 0x1.8p-25,
                                 65504,
                                 65519.99,
                                 65520,
                                 -70000,
                                 1e-30,
                                 12345},
                                DType::float64);
  for (const DType from : kAllTypes) {
    const Tensor x = numbers.to(from);
    for (const DType to : kAllTypes) {
      CAPTURE(to_string(from));
      CAPTURE(to_string(to));
      if (to == DType::int32 && from == DType::float16) continue;  // infinity has no int32
      CHECK(identical(on_device(x).to(to).to(Device::cpu()), x.to(to)));
    }
  }
  const Tensor rest = tensor({kNaN, kInfinity, -kInfinity, 1e300}, DType::float64);
  for (const DType to : kFloatingTypes) CHECK(distance(on_device(rest).to(to), rest.to(to)) == 0.0);
}

TEST_CASE("cuda elementwise: nothing happens to tensors without elements") {
  const Tensor none = on_device(zeros({0, 3}));
  device_kernels().unary(UnaryOp::exp, none, none);
  device_kernels().binary(BinaryOp::add, none, none, none);
  device_kernels().fill(none, 1.0);
  CHECK(none.values().empty());
}
