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
  for (const UnaryOp op :
       {UnaryOp::negate, UnaryOp::exp, UnaryOp::log, UnaryOp::sqrt, UnaryOp::rsqrt, UnaryOp::reciprocal,
        UnaryOp::square, UnaryOp::tanh, UnaryOp::abs, UnaryOp::sign, UnaryOp::erf}) {
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
