#include "core/kernel_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

Tensor unary(UnaryOp op, const Tensor& x) {
  const Tensor y = garbage_like(x);
  cpu().unary(op, x, y);
  return y;
}
Tensor binary(BinaryOp op, const Tensor& a, const Tensor& b) {
  const Tensor y = garbage_like(a.size() >= b.size() ? a : b);
  cpu().binary(op, a, b, y);
  return y;
}
Tensor affine(const Tensor& x, double scale, double shift) {
  const Tensor y = garbage_like(x);
  cpu().affine(x, scale, shift, y);
  return y;
}

}  // namespace

TEST_CASE("elementwise: 0 times NaN or infinity is NaN") {
  for (const DType dtype : kWideTypes) {
    const Tensor x = tensor({kNaN, kInfinity, -kInfinity, 7}, dtype), zero = zeros({4}, dtype);
    CHECK(distance(affine(x, 0.0, 0.0), {kNaN, kNaN, kNaN, 0}) == 0.0);
    CHECK(distance(binary(BinaryOp::multiply, x, zero), {kNaN, kNaN, kNaN, 0}) == 0.0);
    const Tensor sum = ones({4}, dtype);
    cpu().accumulate(x, 0.0, sum);
    CHECK(distance(sum, {kNaN, kNaN, kNaN, 1}) == 0.0);
  }
}

TEST_CASE("elementwise: NaN goes through every function") {
  const Tensor x = tensor({kNaN});
  for (const UnaryOp op : {UnaryOp::negate, UnaryOp::exp, UnaryOp::log, UnaryOp::sqrt, UnaryOp::rsqrt,
                           UnaryOp::reciprocal, UnaryOp::square, UnaryOp::tanh, UnaryOp::abs, UnaryOp::sign,
                           UnaryOp::erf, UnaryOp::log1p, UnaryOp::expm1, UnaryOp::sigmoid}) {
    CHECK(std::isnan(unary(op, x).item()));
  }
}

TEST_CASE("elementwise: the sign of 0 is 0, of the rest 1 or -1") {
  CHECK(distance(unary(UnaryOp::sign, tensor({-kInfinity, -1e-30, 0, 1e-30, 2})), {-1, -1, 0, 1, 1}) == 0.0);
}

TEST_CASE("elementwise: the shorter operand repeats, on either side") {
  const Tensor a = tensor({{10, 20}, {30, 40}}), b = tensor({1, 2});
  CHECK(distance(binary(BinaryOp::subtract, a, b), {9, 18, 29, 38}) == 0.0);
  CHECK(distance(binary(BinaryOp::subtract, b, a), {-9, -18, -29, -38}) == 0.0);
}

TEST_CASE("elementwise: an in-place product or quotient is that of copies") {
  const Tensor x = tensor({3, 5});
  cpu().binary(BinaryOp::multiply, x, x, x);
  CHECK(distance(x, {9, 25}) == 0.0);
  cpu().binary(BinaryOp::divide, x, x, x);
  CHECK(distance(x, {1, 1}) == 0.0);
}

TEST_CASE("elementwise: results do not depend on the number of threads") {
  const Tensor a = random({100000}, DType::float32, 1), b = random({100000}, DType::float32, 2);
  CHECK(independent_of_threads([&] { return unary(UnaryOp::tanh, a); }));
  CHECK(independent_of_threads([&] { return binary(BinaryOp::divide, a, b); }));
}

TEST_CASE("elementwise: a number beside an array repeats, on either side") {
  const Tensor x = tensor({1, 2, 4}), two = full({}, 2.0);
  CHECK(distance(binary(BinaryOp::subtract, x, two), {-1, 0, 2}) == 0.0);
  CHECK(distance(binary(BinaryOp::divide, two, x), {2, 1, 0.5}) == 0.0);
}

TEST_CASE("elementwise: a NaN on either side of a maximum or minimum wins") {
  for (const DType dtype : kWideTypes) {
    const Tensor a = tensor({kNaN, 1, 3}, dtype), b = tensor({1, kNaN, 2}, dtype);
    CHECK(distance(binary(BinaryOp::maximum, a, b), {kNaN, kNaN, 3}) == 0.0);
    CHECK(distance(binary(BinaryOp::minimum, a, b), {kNaN, kNaN, 2}) == 0.0);
    CHECK(distance(binary(BinaryOp::maximum_share, a, b), {kNaN, kNaN, 1}) == 0.0);
  }
}

TEST_CASE("elementwise: clamp lets NaN through") {
  const Tensor x = tensor({kNaN, -kInfinity, 0.5, kInfinity}), y = garbage_like(x);
  cpu().parametric(ParametricOp::clamp, x, 0.0, 1.0, y);
  CHECK(distance(y, {kNaN, 0, 0.5, 1}) == 0.0);
  cpu().parametric(ParametricOp::clamp_slope, x, 0.0, 1.0, y);
  CHECK(distance(y, {kNaN, 0, 1, 0}) == 0.0);
}

TEST_CASE("elementwise: sigmoid is exact to the digit at both ends") {
  for (const DType dtype : kWideTypes) {
    const Tensor y = unary(UnaryOp::sigmoid, tensor({-80, -20, 0, 20, 1000, -1000}, dtype));
    CHECK(relative_error(y.at({0}), 1.8048513878454153e-35) < tolerance(dtype));
    CHECK(relative_error(y.at({1}), 2.0611536181902037e-9) < tolerance(dtype));
    CHECK(distance(y, {0, 0, 0.5, 1, 1, 0}) < 3e-9);
  }
}

TEST_CASE("elementwise: comparisons hold for every dtype, and only not_equal for NaN") {
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::float16}) {
    const Tensor a = tensor({1, 2, 3, kNaN}, dtype), b = tensor({2, 2, 2, 2}, dtype);
    const auto mask = [&](CompareOp op) {
      const Tensor y = Tensor::uninitialized({4}, DType::int32);
      cpu().compare(op, a, b, y);
      return y.values();
    };
    CHECK(mask(CompareOp::less) == std::vector<double>{1, 0, 0, 0});
    CHECK(mask(CompareOp::less_equal) == std::vector<double>{1, 1, 0, 0});
    CHECK(mask(CompareOp::greater) == std::vector<double>{0, 0, 1, 0});
    CHECK(mask(CompareOp::greater_equal) == std::vector<double>{0, 1, 1, 0});
    CHECK(mask(CompareOp::equal) == std::vector<double>{0, 1, 0, 0});
    CHECK(mask(CompareOp::not_equal) == std::vector<double>{1, 0, 1, 1});
  }
}

TEST_CASE("elementwise: where never multiplies") {
  const std::vector<std::int32_t> some{1, 0};
  const Tensor mask = indices({2}, some);
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::float16}) {
    const Tensor y = garbage({2}, dtype);
    cpu().where(mask, tensor({1, kNaN}, dtype), tensor({kNaN, kInfinity}, dtype), y);
    CHECK(distance(y, {1, kInfinity}) == 0.0);
  }
}
