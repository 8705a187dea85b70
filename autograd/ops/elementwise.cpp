// Functions of one operand, elementwise: y_i = f(x_i), so dx_i = f'(x_i) dy_i, and forwards alike.

#include <cmath>
#include <numbers>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/record.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

// The Jacobian is diagonal, so one line serves both sweeps: Self::scale(v, x, y) = f'(x) v, where v is a cotangent or a
// tangent, and all three are tensors or recorded values.
template <class Self>
struct Elementwise : Primitive<Self> {
  template <class Back>
  void pull(Back& back) const {
    if (back.wants(0)) back.give(0, Self::scale(back.cotangent(), back.input(0), back.output()));
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(Self::scale(push.tangent(0), push.input(0), push.output()));
  }
};

// v / d for a derivative with a pole at d = 0, but 0 where v is 0 too: a cotangent of 0 says that the path isn't taken,
// as behind where or maximum, and 0/0 would make NaN of it.
template <class V, class P>
V divide_at_pole(const V& v, const P& d) {
  const Tensor not_taken = logical_and(equal(value_of(v), 0.0), equal(value_of(d), 0.0));
  return divide(v, replaced(broadcast_to(d, v.shape()), not_taken, 1.0));
}

struct Exp : Elementwise<Exp> {
  static constexpr Description kDescription{
      .name = "exp", .inputs = "x", .formula = "y = e^x, dy/dx = y", .saves_output = true, .row_inputs = 0b1};
  template <class V, class P>
  static V scale(const V& v, const P& /*x*/, const P& y) {
    return multiply(v, y);
  }
};

struct Log : Elementwise<Log> {
  static constexpr Description kDescription{
      .name = "log", .inputs = "x", .formula = "y = ln x, dy/dx = 1/x", .saved_inputs = 0b1, .row_inputs = 0b1};
  template <class V, class P>
  static V scale(const V& v, const P& x, const P& /*y*/) {
    return divide_at_pole(v, x);
  }
};

struct Sqrt : Elementwise<Sqrt> {
  static constexpr Description kDescription{
      .name = "sqrt", .inputs = "x", .formula = "y = sqrt(x), dy/dx = 1/(2y)", .saves_output = true, .row_inputs = 0b1};
  template <class V, class P>
  static V scale(const V& v, const P& /*x*/, const P& y) {
    return affine(divide_at_pole(v, y), 0.5, 0.0);
  }
};

struct Rsqrt : Elementwise<Rsqrt> {
  static constexpr Description kDescription{.name = "rsqrt",
                                            .inputs = "x",
                                            .formula = "y = 1/sqrt(x), dy/dx = -y^3/2",
                                            .saves_output = true,
                                            .row_inputs = 0b1};
  template <class V, class P>
  static V scale(const V& v, const P& /*x*/, const P& y) {
    return affine(multiply(v, multiply(y, square(y))), -0.5, 0.0);
  }
};

struct Reciprocal : Elementwise<Reciprocal> {
  static constexpr Description kDescription{
      .name = "reciprocal", .inputs = "x", .formula = "y = 1/x, dy/dx = -y^2", .saves_output = true, .row_inputs = 0b1};
  template <class V, class P>
  static V scale(const V& v, const P& /*x*/, const P& y) {
    return negate(multiply(v, square(y)));
  }
};

struct Square : Elementwise<Square> {
  static constexpr Description kDescription{
      .name = "square", .inputs = "x", .formula = "y = x^2, dy/dx = 2x", .saved_inputs = 0b1, .row_inputs = 0b1};
  template <class V, class P>
  static V scale(const V& v, const P& x, const P& /*y*/) {
    return affine(multiply(v, x), 2.0, 0.0);
  }
};

struct Tanh : Elementwise<Tanh> {
  static constexpr Description kDescription{.name = "tanh",
                                            .inputs = "x",
                                            .formula = "y = tanh(x), dy/dx = 1 - y^2",
                                            .saves_output = true,
                                            .row_inputs = 0b1};
  template <class V, class P>
  static V scale(const V& v, const P& /*x*/, const P& y) {
    return multiply(v, affine(square(y), -1.0, 1.0));
  }
};

struct Erf : Elementwise<Erf> {
  static constexpr Description kDescription{.name = "erf",
                                            .inputs = "x",
                                            .formula = "y = erf(x), dy/dx = 2/sqrt(pi) e^(-x^2)",
                                            .saved_inputs = 0b1,
                                            .row_inputs = 0b1};
  template <class V, class P>
  static V scale(const V& v, const P& x, const P& /*y*/) {
    return multiply(v, affine(exp(negate(square(x))), 2.0 * std::numbers::inv_sqrtpi, 0.0));
  }
};

struct Abs : Elementwise<Abs> {
  static constexpr Description kDescription{
      .name = "abs", .inputs = "x", .formula = "y = |x|, dy/dx = sign(x)", .saved_inputs = 0b1, .row_inputs = 0b1};
  template <class V, class P>
  static V scale(const V& v, const P& x, const P& /*y*/) {
    return multiply(v, sign(x));
  }
};

struct Sign : Primitive<Sign> {
  static constexpr Description kDescription{
      .name = "sign", .inputs = "x", .formula = "y = sign(x), dy/dx = 0", .row_inputs = 0b1};
  template <class Back>
  void pull(Back& back) const {
    if (back.wants(0)) back.give(0, affine(back.cotangent(), 0.0, 0.0));
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(affine(push.tangent(0), 0.0, 0.0));
  }
};

struct Log1p : Elementwise<Log1p> {
  static constexpr Description kDescription{.name = "log1p",
                                            .inputs = "x",
                                            .formula = "y = ln(1 + x), dy/dx = 1/(1 + x)",
                                            .saved_inputs = 0b1,
                                            .row_inputs = 0b1};
  template <class V, class P>
  static V scale(const V& v, const P& x, const P& /*y*/) {
    return divide(v, affine(x, 1.0, 1.0));
  }
};

// e^x is computed anew: y + 1 would lose it where y is near -1.
struct Expm1 : Elementwise<Expm1> {
  static constexpr Description kDescription{
      .name = "expm1", .inputs = "x", .formula = "y = e^x - 1, dy/dx = e^x", .saved_inputs = 0b1, .row_inputs = 0b1};
  template <class V, class P>
  static V scale(const V& v, const P& x, const P& /*y*/) {
    return multiply(v, exp(x));
  }
};

// sigmoid(-x) is 1 - y without its cancellation where y is near 1.
struct Sigmoid : Elementwise<Sigmoid> {
  static constexpr Description kDescription{.name = "sigmoid",
                                            .inputs = "x",
                                            .formula = "y = 1/(1 + e^-x), dy/dx = sigmoid(x) sigmoid(-x)",
                                            .saved_inputs = 0b1,
                                            .saves_output = true,
                                            .row_inputs = 0b1};
  template <class V, class P>
  static V scale(const V& v, const P& x, const P& y) {
    return multiply(v, multiply(y, sigmoid(negate(x))));
  }
};

}  // namespace

Var exp(const Var& x, SourceLine line) { return record_unary<Exp>(x, exp, line); }
Var log(const Var& x, SourceLine line) { return record_unary<Log>(x, log, line); }
Var sqrt(const Var& x, SourceLine line) { return record_unary<Sqrt>(x, sqrt, line); }
Var rsqrt(const Var& x, SourceLine line) { return record_unary<Rsqrt>(x, rsqrt, line); }
Var reciprocal(const Var& x, SourceLine line) { return record_unary<Reciprocal>(x, reciprocal, line); }
Var square(const Var& x, SourceLine line) { return record_unary<Square>(x, square, line); }
Var tanh(const Var& x, SourceLine line) { return record_unary<Tanh>(x, tanh, line); }
Var erf(const Var& x, SourceLine line) { return record_unary<Erf>(x, erf, line); }
Var abs(const Var& x, SourceLine line) { return record_unary<Abs>(x, abs, line); }
Var sign(const Var& x, SourceLine line) { return record_unary<Sign>(x, sign, line); }
Var log1p(const Var& x, SourceLine line) { return record_unary<Log1p>(x, log1p, line); }
Var expm1(const Var& x, SourceLine line) { return record_unary<Expm1>(x, expm1, line); }
Var sigmoid(const Var& x, SourceLine line) { return record_unary<Sigmoid>(x, sigmoid, line); }

}  // namespace jnorm
