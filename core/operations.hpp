#pragma once

// Operations on tensors that are not recorded. Names and meanings are those of the recorded operations in
// <jnorm/autograd/ops.hpp>, so that a derivative can be written once for both.
//
// Elementwise operations take operands of one shape, or one operand whose shape is a suffix of the other's: it repeats
// along the leading axes, as a primal value does beside several cotangents. Results are new tensors. Arguments are
// checked by the recorded operations; here only what would be undefined behaviour is.

#include <span>

#include <jnorm/core/kernels.hpp>
#include <jnorm/core/tensor.hpp>

namespace jnorm {

Tensor add(const Tensor& a, const Tensor& b);
Tensor subtract(const Tensor& a, const Tensor& b);
Tensor multiply(const Tensor& a, const Tensor& b);
Tensor divide(const Tensor& a, const Tensor& b);
Tensor affine(const Tensor& x, double scale, double shift);  // scale x + shift

Tensor negate(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor square(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor pow(const Tensor& x, double p);
Tensor pow(const Tensor& a, const Tensor& b);

Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor maximum_share(const Tensor& a, const Tensor& b);  // d maximum(a, b) / d a: 1, 1/2 at a tie, or 0
Tensor clamp(const Tensor& x, double low, double high);
Tensor clamp_slope(const Tensor& x, double low, double high);  // 1 in [low, high], 0 outside

// Masks, for where(): int32, 1 where it holds and 0 elsewhere. Nothing but not_equal holds for NaN. Operands of any one
// dtype; they broadcast by NumPy's rule.
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& x, double number);
Tensor less_equal(const Tensor& x, double number);
Tensor greater(const Tensor& x, double number);
Tensor greater_equal(const Tensor& x, double number);
Tensor equal(const Tensor& x, double number);
Tensor not_equal(const Tensor& x, double number);
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& mask);

// The elements of a where the mask isn't 0, of b elsewhere; all three have one shape.
Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b);

Tensor to(const Tensor& x, DType dtype);
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor broadcast_to(const Tensor& x, const Shape& shape);
// Sums over the axes whose bit is set; the others stay, in order: [2, 3, 4] over axis 1 is [2, 4].
Tensor sum_axes(const Tensor& x, std::uint32_t axes);
// One bit an axis; NaN wins. Over no elements: -inf, inf, 0 and -inf.
Tensor max_axes(const Tensor& x, std::uint32_t axes);
Tensor min_axes(const Tensor& x, std::uint32_t axes);
Tensor l2_norm_axes(const Tensor& x, std::uint32_t axes);
Tensor logsumexp_axes(const Tensor& x, std::uint32_t axes);
// sum (x - mean)^2 / divisor.
Tensor variance_axes(const Tensor& x, std::uint32_t axes, double divisor);
// x / (1 - p) or 0, elementwise. The mask, for `period` elements, which repeat, follows from the generator's state.
Tensor dropout(const Tensor& x, double p, const Rng::State& mask, Index period);
// Axis i of the result is axis axes[i] of x.
Tensor permute(const Tensor& x, std::span<const int> axes);
// op(a) op(b) over the last two axes, where op transposes if asked; the operand with fewer batches repeats.
Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false);

// By a mask of int32, 1 or 0, that repeats along the leading axes. What is masked reaches no result, even if it is NaN.
Tensor select(const Tensor& x, const Tensor& mask);  // x where the mask is 1, 0 elsewhere
// a b^T for the pairs (i, j) with mask[i, j] = 1, and 0 for the others.
Tensor sampled_matmul(const Tensor& a, const Tensor& b, const Tensor& mask);
// op(a) b without the elements of a that the mask, shaped like a, has 0 for.
Tensor masked_matmul(const Tensor& a, const Tensor& b, const Tensor& mask, bool transpose_a = false);

// Euclidean norm of all elements, accumulated in float64.
double norm(const Tensor& x);
// sum of a * b in float64.
double dot(const Tensor& a, const Tensor& b);

}  // namespace jnorm
