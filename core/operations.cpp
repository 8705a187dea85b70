#include <jnorm/core/operations.hpp>

#include <array>
#include <cmath>
#include <vector>

#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

const Kernels& kernels_of(const Tensor& x) { return x.device().kernels(); }

Tensor like(const Tensor& x) { return Tensor::uninitialized(x.shape(), x.dtype(), x.device()); }

Tensor unary(UnaryOp op, const Tensor& x) {
  Tensor y = like(x);
  kernels_of(x).unary(op, x, y);
  return y;
}

Tensor binary(const char* name, BinaryOp op, const Tensor& a, const Tensor& b) {
  const Tensor& longer = a.rank() >= b.rank() ? a : b;
  const Tensor& shorter = a.rank() >= b.rank() ? b : a;
  expect(longer.shape().has_suffix(shorter.shape()), "{}: shapes {} and {} don't fit", name, a.shape(), b.shape());
  expect(a.dtype() == b.dtype(), "{}: dtypes {} and {} differ", name, a.dtype(), b.dtype());
  expect(a.device() == b.device(), "{}: the operands are on {} and {}", name, a.device().name(), b.device().name());
  Tensor y = like(longer);
  kernels_of(a).binary(op, a, b, y);
  return y;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) { return binary("add", BinaryOp::add, a, b); }
Tensor subtract(const Tensor& a, const Tensor& b) { return binary("subtract", BinaryOp::subtract, a, b); }
Tensor multiply(const Tensor& a, const Tensor& b) { return binary("multiply", BinaryOp::multiply, a, b); }
Tensor divide(const Tensor& a, const Tensor& b) { return binary("divide", BinaryOp::divide, a, b); }

Tensor affine(const Tensor& x, double scale, double shift) {
  Tensor y = like(x);
  kernels_of(x).affine(x, scale, shift, y);
  return y;
}

Tensor negate(const Tensor& x) { return unary(UnaryOp::negate, x); }
Tensor exp(const Tensor& x) { return unary(UnaryOp::exp, x); }
Tensor log(const Tensor& x) { return unary(UnaryOp::log, x); }
Tensor sqrt(const Tensor& x) { return unary(UnaryOp::sqrt, x); }
Tensor rsqrt(const Tensor& x) { return unary(UnaryOp::rsqrt, x); }
Tensor reciprocal(const Tensor& x) { return unary(UnaryOp::reciprocal, x); }
Tensor square(const Tensor& x) { return unary(UnaryOp::square, x); }
Tensor tanh(const Tensor& x) { return unary(UnaryOp::tanh, x); }
Tensor abs(const Tensor& x) { return unary(UnaryOp::abs, x); }
Tensor sign(const Tensor& x) { return unary(UnaryOp::sign, x); }
Tensor erf(const Tensor& x) { return unary(UnaryOp::erf, x); }

Tensor to(const Tensor& x, DType dtype) { return x.to(dtype); }

Tensor reshape(const Tensor& x, const Shape& shape) { return x.reshape(shape); }

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  expect(broadcast_shapes(x.shape(), shape) == shape, "broadcast_to: {} doesn't broadcast to {}", x.shape(), shape);
  Tensor y = Tensor::uninitialized(shape, x.dtype(), x.device());
  kernels_of(x).broadcast(x, y);
  return y;
}

Tensor sum_axes(const Tensor& x, std::uint32_t axes) {
  std::array<Index, Shape::kMaxRank> sizes{};
  std::size_t rank = 0;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if ((axes >> axis & 1u) == 0) sizes[rank++] = x.dim(axis);
  }
  Tensor y = Tensor::uninitialized(Shape(std::span<const Index>(sizes.data(), rank)), x.dtype(), x.device());
  kernels_of(x).sum(x, ~axes, y);
  return y;
}

Tensor permute(const Tensor& x, std::span<const int> axes) {
  expect(static_cast<int>(axes.size()) == x.rank(), "permute: {} has {} axes, but {} were named", x.shape(), x.rank(),
         axes.size());
  std::array<Index, Shape::kMaxRank> sizes{};
  std::uint32_t seen = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = x.shape().resolve_axis(axes[i]);
    expect(axis == axes[i] && (seen >> axis & 1u) == 0, "permute: axis {} is named twice or negative", axes[i]);
    seen |= 1u << axis;
    sizes[i] = x.dim(axis);
  }
  Tensor y = Tensor::uninitialized(Shape(std::span<const Index>(sizes.data(), axes.size())), x.dtype(), x.device());
  kernels_of(x).permute(x, axes.data(), y);
  return y;
}

namespace {

void expect_mask(const char* name, const Tensor& x, const Tensor& mask) {
  expect(x.shape().has_suffix(mask.shape()), "{}: the mask {} doesn't fit {}", name, mask.shape(), x.shape());
}

}  // namespace

Tensor select(const Tensor& x, const Tensor& mask) {
  expect_mask("select", x, mask);
  Tensor y = like(x);
  kernels_of(x).select(x, mask, y);
  return y;
}

Tensor sampled_matmul(const Tensor& a, const Tensor& b, const Tensor& mask) {
  return select(matmul(a, b, false, true), mask);
}

Tensor masked_matmul(const Tensor& a, const Tensor& b, const Tensor& mask, bool transpose_a) {
  expect(a.rank() >= 2 && b.rank() >= 2 && a.dim(transpose_a ? -2 : -1) == b.dim(-2),
         "masked_matmul: inner sizes differ in {}{} and {}", a.shape(), transpose_a ? "^T" : "", b.shape());
  expect_mask("masked_matmul", a, mask);
  const Shape& batches = (a.rank() >= b.rank() ? a : b).shape();
  const Shape shape = batches.with_axis(-2, a.dim(transpose_a ? -1 : -2)).with_axis(-1, b.dim(-1));
  Tensor y = Tensor::uninitialized(shape, a.dtype(), a.device());
  kernels_of(a).masked_matmul(a, transpose_a, b, mask, y);
  return y;
}

Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  expect(a.rank() >= 2 && b.rank() >= 2, "matmul: expected matrices, got {} and {}", a.shape(), b.shape());
  const Index rows = a.dim(transpose_a ? -1 : -2);
  const Index inner = a.dim(transpose_a ? -2 : -1);
  const Index columns = b.dim(transpose_b ? -2 : -1);
  expect(inner == b.dim(transpose_b ? -1 : -2), "matmul: inner sizes differ in {}{} and {}{}", a.shape(),
         transpose_a ? "^T" : "", b.shape(), transpose_b ? "^T" : "");
  const Shape& batches = (a.rank() >= b.rank() ? a : b).shape();
  Tensor y = Tensor::uninitialized(batches.with_axis(-2, rows).with_axis(-1, columns), a.dtype(), a.device());
  kernels_of(a).matmul(a, transpose_a, b, transpose_b, {.tensor = y});
  return y;
}

double norm(const Tensor& x) {
  double squares = 0.0;
  kernels_of(x).sum_of_squares(x, squares);
  return std::sqrt(squares);
}

double dot(const Tensor& a, const Tensor& b) {
  const std::vector<double> left = a.values();
  const std::vector<double> right = b.values();
  expect(left.size() == right.size(), "dot: {} and {} differ in size", a.shape(), b.shape());
  double total = 0.0;
  for (std::size_t i = 0; i < left.size(); ++i) total += left[i] * right[i];
  return total;
}

}  // namespace jnorm
