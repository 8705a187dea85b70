#pragma once

// The recorded operations. Each one validates its arguments, computes, and appends a node that knows its derivative.
// Formulas, derivatives and what is saved stand in autograd/ops/, an operation in one place.
//
// All of them throw Error(argument) on shapes, dtypes or devices that don't fit, naming operation, module path and
// line. Operands must share dtype and device. Shapes are row-major; "last axis" is the feature axis H.

#include <initializer_list>
#include <span>

#include <jnorm/autograd/tape.hpp>
#include <jnorm/autograd/var.hpp>
#include <jnorm/core/operations.hpp>

namespace jnorm {

// An operand of an operator, with the line where it stands: a recorded value, a number, or a tensor (a constant).
class Operand {
 public:
  // NOLINTBEGIN(google-explicit-constructor): operands convert, so that x * 2 and y - target read as formulas
  Operand(const Var& var, SourceLine line = SourceLine::here()) : var_(var), line_(line) {}
  Operand(double number, SourceLine line = SourceLine::here()) : is_number_(true), number_(number), line_(line) {}
  Operand(const Tensor& tensor, SourceLine line = SourceLine::here()) : tensor_(&tensor), line_(line) {}
  // NOLINTEND(google-explicit-constructor)

  bool is_number() const { return is_number_; }  // an undefined Var is none
  double number() const { return number_; }
  const Var& var() const { return var_; }  // undefined for a number or a tensor
  Var on(Tape& tape) const { return tensor_ != nullptr ? tape.constant(*tensor_, "", line_) : var_; }
  SourceLine line() const { return line_; }

 private:
  Var var_;
  bool is_number_ = false;
  double number_ = 0.0;
  const Tensor* tensor_ = nullptr;
  SourceLine line_;
};

// Arithmetic, elementwise; operands broadcast by NumPy's rule, through a recorded broadcast.
Var add(const Var& a, const Var& b, SourceLine line = SourceLine::here());
Var subtract(const Var& a, const Var& b, SourceLine line = SourceLine::here());
Var multiply(const Var& a, const Var& b, SourceLine line = SourceLine::here());
Var divide(const Var& a, const Var& b, SourceLine line = SourceLine::here());
Var affine(const Var& x, double scale, double shift, SourceLine line = SourceLine::here());  // scale x + shift
Var negate(const Var& x, SourceLine line = SourceLine::here());

Var operator+(const Var& a, const Operand& b);
Var operator-(const Var& a, const Operand& b);
Var operator*(const Var& a, const Operand& b);
Var operator/(const Var& a, const Operand& b);
Var operator+(double a, const Operand& b);
Var operator-(double a, const Operand& b);
Var operator*(double a, const Operand& b);
Var operator/(double a, const Operand& b);
Var operator-(const Operand& x);

// Functions, elementwise. NaN goes through all of them, and so does a NaN cotangent.
Var exp(const Var& x, SourceLine line = SourceLine::here());
Var log(const Var& x, SourceLine line = SourceLine::here());
// sqrt's derivative at 0 is infinite, so sqrt(sum(square(x))) has none at x = 0 (NaN): add an eps below the root.
Var sqrt(const Var& x, SourceLine line = SourceLine::here());
Var rsqrt(const Var& x, SourceLine line = SourceLine::here());       // 1 / sqrt(x)
Var reciprocal(const Var& x, SourceLine line = SourceLine::here());  // 1 / x
Var square(const Var& x, SourceLine line = SourceLine::here());
Var tanh(const Var& x, SourceLine line = SourceLine::here());
Var erf(const Var& x, SourceLine line = SourceLine::here());
Var abs(const Var& x, SourceLine line = SourceLine::here());   // derivative 0 at 0
Var sign(const Var& x, SourceLine line = SourceLine::here());  // derivative 0 everywhere

// Activations. relu(-0) is +0, and ReLU's derivative at 0 is 0. gelu is x Phi(x); gelu_tanh its approximation by tanh.
// NaN stays NaN.
Var relu(const Var& x, SourceLine line = SourceLine::here());
Var gelu(const Var& x, SourceLine line = SourceLine::here());
Var gelu_tanh(const Var& x, SourceLine line = SourceLine::here());

// Shape.
Var reshape(const Var& x, const Shape& shape, SourceLine line = SourceLine::here());
Var broadcast_to(const Var& x, const Shape& shape, SourceLine line = SourceLine::here());
Var permute(const Var& x, std::span<const int> axes, SourceLine line = SourceLine::here());
Var permute(const Var& x, std::initializer_list<int> axes, SourceLine line = SourceLine::here());
Var transpose(const Var& x, SourceLine line = SourceLine::here());  // swaps the last two axes

// Sums and means over all axes (a scalar results) or over the named ones. With Keep::yes they stay with size 1.
enum class Keep : bool { no, yes };
Var sum(const Var& x, SourceLine line = SourceLine::here());
Var sum(const Var& x, std::initializer_list<int> axes, Keep keep = Keep::no, SourceLine line = SourceLine::here());
Var sum_axes(const Var& x, std::uint32_t axes, SourceLine line = SourceLine::here());  // one bit an axis; not kept
Var mean(const Var& x, SourceLine line = SourceLine::here());
Var mean(const Var& x, std::initializer_list<int> axes, Keep keep = Keep::no, SourceLine line = SourceLine::here());

// op(a) op(b) over the last two axes, where op transposes if asked; the other axes are batches and must be equal.
Var matmul(const Var& a, const Var& b, bool transpose_a = false, bool transpose_b = false,
           SourceLine line = SourceLine::here());

// x [..., in], weight [out, in], bias [out] or undefined -> [..., out].
Var linear(const Var& x, const Var& weight, const Var& bias = {}, SourceLine line = SourceLine::here());

// table [V, H], tokens [...] of int32 -> [..., H]. Throws Error(argument) on a token outside [0, V).
Var embedding(const Var& table, const Tensor& tokens, SourceLine line = SourceLine::here());

// Over the last axis. An element of -inf is masked: its probability, and the gradient of softmax there, are exactly 0.
// A row of nothing but -inf is NaN (0/0).
Var softmax(const Var& x, SourceLine line = SourceLine::here());
Var log_softmax(const Var& x, SourceLine line = SourceLine::here());

// logits [..., V], targets [...] of int32 -> scalar: the mean of -log softmax(logits)[target] over the targets that
// aren't kIgnoreIndex; 0 if there are none. Throws Error(argument) on another target outside [0, V).
Var cross_entropy(const Var& logits, const Tensor& targets, SourceLine line = SourceLine::here());

// q, k, v [B, T, H] -> [B, T, H]: in each of `heads` slices of D = H / heads columns,
// softmax(q k^T / sqrt(D) where the key isn't later than the query) v. A NaN or infinity at a later position doesn't
// reach the output of an earlier one.
Var causal_attention(const Var& q, const Var& k, const Var& v, Index heads, SourceLine line = SourceLine::here());

// Over the last axis: gamma (x - mean) / sqrt(variance + eps) + beta, with the biased variance. gamma and beta [H] may
// be undefined. Derivation: autograd/ops/layer_norm.md. Throws Error(argument) on a negative or NaN eps.
//
// Both norms take rows of any size up to half of the dtype's largest number, also where their squares overflow; eps
// keeps its meaning. A row of equal elements gives beta, and a zero row in rms_norm 0; with an eps of 0 they are 0/0,
// NaN.
inline constexpr double kNormEps = 1e-5;
Var layer_norm(const Var& x, const Var& gamma = {}, const Var& beta = {}, double eps = kNormEps,
               SourceLine line = SourceLine::here());

// Over the last axis: gamma x / sqrt(mean(x^2) + eps). Derivation: autograd/ops/rms_norm.md.
Var rms_norm(const Var& x, const Var& gamma = {}, double eps = kNormEps, SourceLine line = SourceLine::here());

}  // namespace jnorm
