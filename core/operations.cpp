#include <jnorm/core/operations.hpp>

#include <array>
#include <cmath>
#include <vector>

#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

const Kernels& kernels_of(const Tensor& x) { return x.device().kernels(); }

Tensor like(const Tensor& x) { return Tensor::uninitialized(x.shape(), x.dtype(), x.device()); }

// Kernels serve many operations; errors name the one that was asked for.
void expect_numbers(const char* name, const Tensor& x) {
  expect(x.dtype() != DType::int32, "{}: expected a floating-point dtype, got int32", name);
}

Tensor unary(const char* name, UnaryOp op, const Tensor& x) {
  expect_numbers(name, x);
  Tensor y = like(x);
  kernels_of(x).unary(op, x, y);
  return y;
}

Tensor parametric(const char* name, ParametricOp op, const Tensor& x, double p, double q) {
  expect_numbers(name, x);
  Tensor y = like(x);
  kernels_of(x).parametric(op, x, p, q, y);
  return y;
}

void expect_same_kind(const char* name, const Tensor& a, const Tensor& b) {
  expect(a.dtype() == b.dtype(), "{}: dtypes {} and {} differ", name, a.dtype(), b.dtype());
  expect(a.device() == b.device(), "{}: the operands are on {} and {}", name, a.device().name(), b.device().name());
}

Tensor binary(const char* name, BinaryOp op, const Tensor& a, const Tensor& b) {
  const Tensor& longer = a.rank() >= b.rank() ? a : b;
  const Tensor& shorter = a.rank() >= b.rank() ? b : a;
  expect(longer.shape().has_suffix(shorter.shape()), "{}: shapes {} and {} don't fit", name, a.shape(), b.shape());
  expect_same_kind(name, a, b);
  expect_numbers(name, a);
  Tensor y = like(longer);
  kernels_of(a).binary(op, a, b, y);
  return y;
}

Tensor compare(const char* name, CompareOp op, Tensor a, Tensor b) {
  expect_same_kind(name, a, b);
  const Shape shape = broadcast_shapes(a.shape(), b.shape());
  if (!shape.has_suffix(a.shape())) a = broadcast_to(a, shape);
  if (!shape.has_suffix(b.shape())) b = broadcast_to(b, shape);
  Tensor mask = Tensor::uninitialized(shape, DType::int32, a.device());
  kernels_of(a).compare(op, a, b, mask);
  return mask;
}

Tensor compare(const char* name, CompareOp op, const Tensor& x, double number) {
  return compare(name, op, x, full({}, number, x.dtype(), x.device()));
}

// Where a reduction over these axes goes.
Tensor without_axes(const Tensor& x, std::uint32_t axes) {
  std::array<Index, Shape::kMaxRank> sizes{};
  std::size_t rank = 0;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if ((axes >> axis & 1u) == 0) sizes[rank++] = x.dim(axis);
  }
  return Tensor::uninitialized(Shape(std::span<const Index>(sizes.data(), rank)), x.dtype(), x.device());
}

Tensor reduce(const char* name, ReduceOp op, const Tensor& x, std::uint32_t axes) {
  expect_numbers(name, x);
  Tensor y = without_axes(x, axes);
  kernels_of(x).reduce(op, x, ~axes, y);
  return y;
}

void expect_mask(const char* name, const Shape& x, const Tensor& mask) {
  expect(mask.defined() && mask.dtype() == DType::int32, "{}: the mask must be int32, got {}", name,
         mask.defined() ? to_string(mask.dtype()) : "an undefined tensor");
  expect(x.has_suffix(mask.shape()), "{}: the mask {} doesn't fit {}", name, mask.shape(), x);
}

// The batches of a product: those of the operand with fewer axes repeat, so they end the other's.
void expect_products(const char* name, const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  expect(a.rank() >= 2 && b.rank() >= 2, "{}: expected matrices, got {} and {}", name, a.shape(), b.shape());
  const auto batches = [](const Tensor& x) { return x.shape().with_axis(-1, 1).with_axis(-2, 1); };
  const Tensor& longer = a.rank() >= b.rank() ? a : b;
  const Tensor& shorter = a.rank() >= b.rank() ? b : a;
  expect(batches(longer).has_suffix(batches(shorter)), "{}: the batches of {} and {} differ", name, a.shape(),
         b.shape());
  expect(a.dim(transpose_a ? -2 : -1) == b.dim(transpose_b ? -1 : -2), "{}: inner sizes differ in {}{} and {}{}", name,
         a.shape(), transpose_a ? "^T" : "", b.shape(), transpose_b ? "^T" : "");
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

Tensor negate(const Tensor& x) { return unary("negate", UnaryOp::negate, x); }
Tensor exp(const Tensor& x) { return unary("exp", UnaryOp::exp, x); }
Tensor log(const Tensor& x) { return unary("log", UnaryOp::log, x); }
Tensor sqrt(const Tensor& x) { return unary("sqrt", UnaryOp::sqrt, x); }
Tensor rsqrt(const Tensor& x) { return unary("rsqrt", UnaryOp::rsqrt, x); }
Tensor reciprocal(const Tensor& x) { return unary("reciprocal", UnaryOp::reciprocal, x); }
Tensor square(const Tensor& x) { return unary("square", UnaryOp::square, x); }
Tensor tanh(const Tensor& x) { return unary("tanh", UnaryOp::tanh, x); }
Tensor abs(const Tensor& x) { return unary("abs", UnaryOp::abs, x); }
Tensor sign(const Tensor& x) { return unary("sign", UnaryOp::sign, x); }
Tensor erf(const Tensor& x) { return unary("erf", UnaryOp::erf, x); }
Tensor log1p(const Tensor& x) { return unary("log1p", UnaryOp::log1p, x); }
Tensor expm1(const Tensor& x) { return unary("expm1", UnaryOp::expm1, x); }
Tensor sigmoid(const Tensor& x) { return unary("sigmoid", UnaryOp::sigmoid, x); }
Tensor pow(const Tensor& x, double p) { return parametric("pow", ParametricOp::power, x, p, 0.0); }
Tensor pow(const Tensor& a, const Tensor& b) { return binary("pow", BinaryOp::power, a, b); }

Tensor maximum(const Tensor& a, const Tensor& b) { return binary("maximum", BinaryOp::maximum, a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return binary("minimum", BinaryOp::minimum, a, b); }
Tensor maximum_share(const Tensor& a, const Tensor& b) { return binary("maximum", BinaryOp::maximum_share, a, b); }
Tensor clamp(const Tensor& x, double low, double high) {
  return parametric("clamp", ParametricOp::clamp, x, low, high);
}
Tensor clamp_slope(const Tensor& x, double low, double high) {
  return parametric("clamp", ParametricOp::clamp_slope, x, low, high);
}

Tensor less(const Tensor& a, const Tensor& b) { return compare("less", CompareOp::less, a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return compare("less_equal", CompareOp::less_equal, a, b); }
Tensor greater(const Tensor& a, const Tensor& b) { return compare("greater", CompareOp::greater, a, b); }
Tensor greater_equal(const Tensor& a, const Tensor& b) {
  return compare("greater_equal", CompareOp::greater_equal, a, b);
}
Tensor equal(const Tensor& a, const Tensor& b) { return compare("equal", CompareOp::equal, a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return compare("not_equal", CompareOp::not_equal, a, b); }
Tensor less(const Tensor& x, double number) { return compare("less", CompareOp::less, x, number); }
Tensor less_equal(const Tensor& x, double number) { return compare("less_equal", CompareOp::less_equal, x, number); }
Tensor greater(const Tensor& x, double number) { return compare("greater", CompareOp::greater, x, number); }
Tensor greater_equal(const Tensor& x, double number) {
  return compare("greater_equal", CompareOp::greater_equal, x, number);
}
Tensor equal(const Tensor& x, double number) { return compare("equal", CompareOp::equal, x, number); }
Tensor not_equal(const Tensor& x, double number) { return compare("not_equal", CompareOp::not_equal, x, number); }
Tensor logical_and(const Tensor& a, const Tensor& b) { return compare("logical_and", CompareOp::logical_and, a, b); }
Tensor logical_not(const Tensor& mask) { return compare("logical_not", CompareOp::equal, mask, 0.0); }

Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b) {
  expect_same_kind("where", a, b);
  expect_mask("where", a.shape(), mask);
  expect(a.shape() == b.shape() && mask.shape() == a.shape(), "where: shapes {}, {} and {} differ", mask.shape(),
         a.shape(), b.shape());
  Tensor y = like(a);
  kernels_of(a).where(mask, a, b, y);
  return y;
}

Tensor to(const Tensor& x, DType dtype) { return x.to(dtype); }

Tensor reshape(const Tensor& x, const Shape& shape) { return x.reshape(shape); }

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  expect(x.shape().broadcasts_to(shape), "broadcast_to: {} doesn't broadcast to {}", x.shape(), shape);
  Tensor y = Tensor::uninitialized(shape, x.dtype(), x.device());
  kernels_of(x).broadcast(x, y);
  return y;
}

Tensor sum_axes(const Tensor& x, std::uint32_t axes) {
  Tensor y = without_axes(x, axes);
  kernels_of(x).sum(x, ~axes, y);
  return y;
}

Tensor max_axes(const Tensor& x, std::uint32_t axes) { return reduce("max", ReduceOp::max, x, axes); }
Tensor min_axes(const Tensor& x, std::uint32_t axes) { return reduce("min", ReduceOp::min, x, axes); }
Tensor l2_norm_axes(const Tensor& x, std::uint32_t axes) { return reduce("l2_norm", ReduceOp::l2_norm, x, axes); }
Tensor logsumexp_axes(const Tensor& x, std::uint32_t axes) { return reduce("logsumexp", ReduceOp::logsumexp, x, axes); }

Tensor variance_axes(const Tensor& x, std::uint32_t axes, double divisor) {
  expect_numbers("variance", x);
  Tensor y = without_axes(x, axes);
  kernels_of(x).variance(x, ~axes, divisor, y);
  return y;
}

Tensor dropout(const Tensor& x, double p, const Rng::State& mask, Index period) {
  expect_numbers("dropout", x);
  expect(p >= 0.0 && p <= 1.0, "dropout: p must be from 0 to 1, got {}", p);
  expect(period > 0 ? x.size() % period == 0 : period == 0 && x.size() == 0,
         "dropout: {} elements are no multiple of {}", x.size(), period);
  Tensor y = like(x);
  kernels_of(x).dropout(x, p, mask, period, y);
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

Tensor select(const Tensor& x, const Tensor& mask) {
  expect_mask("select", x.shape(), mask);
  Tensor y = like(x);
  kernels_of(x).select(x, mask, y);
  return y;
}

Tensor sampled_matmul(const Tensor& a, const Tensor& b, const Tensor& mask) {
  expect_products("sampled_matmul", a, b, false, true);
  expect_mask("sampled_matmul",
              a.rank() >= b.rank() ? a.shape().with_axis(-1, b.dim(-2))
                                   : b.shape().with_axis(-1, b.dim(-2)).with_axis(-2, a.dim(-2)),
              mask);
  return select(matmul(a, b, false, true), mask);
}

Tensor masked_matmul(const Tensor& a, const Tensor& b, const Tensor& mask, bool transpose_a) {
  expect_products("masked_matmul", a, b, transpose_a, false);
  expect_mask("masked_matmul", a.shape(), mask);
  const Shape& batches = (a.rank() >= b.rank() ? a : b).shape();
  const Shape shape = batches.with_axis(-2, a.dim(transpose_a ? -1 : -2)).with_axis(-1, b.dim(-1));
  Tensor y = Tensor::uninitialized(shape, a.dtype(), a.device());
  kernels_of(a).masked_matmul(a, transpose_a, b, mask, y);
  return y;
}

Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  expect_products("matmul", a, b, transpose_a, transpose_b);
  const Index rows = a.dim(transpose_a ? -1 : -2), columns = b.dim(transpose_b ? -2 : -1);
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
