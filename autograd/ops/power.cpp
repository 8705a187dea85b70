// Powers.
//
//   y = x^p      dy/dx = p x^(p-1), and 0 for p = 0
//   y = a^b      dy/da = b a^(b-1), and 0 where a = b = 0      dy/db = y ln a, and 0 where a = 0 and b >= 0
//
// The exceptions are 0 times infinity otherwise. There a is replaced by 1 before the infinity arises, so that the
// derivatives of these derivatives are finite too.

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/record.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

struct PowerOfNumber : Primitive<PowerOfNumber> {
  static constexpr Description kDescription{
      .name = "pow", .inputs = "x", .formula = "y = x^p, dy/dx = p x^(p-1)", .saved_inputs = 0b1, .row_inputs = 0b1};
  double p;
  explicit PowerOfNumber(double exponent) : p(exponent) {}

  template <class V, class P>
  V scale(const V& v, const P& x) const {
    return p == 0.0 ? affine(v, 0.0, 0.0) : multiply(v, affine(pow(x, p - 1.0), p, 0.0));
  }
  template <class Back>
  void pull(Back& back) const {
    if (back.wants(0)) back.give(0, scale(back.cotangent(), back.input(0)));
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(scale(push.tangent(0), push.input(0)));
  }
};

struct Power : Primitive<Power> {
  static constexpr Description kDescription{.name = "pow",
                                            .inputs = "a b",
                                            .formula = "y = a^b, dy/da = b a^(b-1), dy/db = y ln a",
                                            .saved_inputs = 0b11,
                                            .saves_output = true,
                                            .row_inputs = 0b11};

  template <class P>
  static P slope_of_base(const P& a, const P& b) {
    const Tensor both_zero = logical_and(equal(value_of(a), 0.0), equal(value_of(b), 0.0));
    return multiply(b, pow(replaced(a, both_zero, 1.0), affine(b, 1.0, -1.0)));
  }
  template <class P>
  static P slope_of_exponent(const P& a, const P& b, const P& y) {
    const Tensor stays_zero = logical_and(equal(value_of(a), 0.0), greater_equal(value_of(b), 0.0));
    return multiply(y, log(replaced(a, stays_zero, 1.0)));
  }
  template <class Back>
  void pull(Back& back) const {
    const auto& dy = back.cotangent();
    if (back.wants(0)) back.give(0, multiply(dy, slope_of_base(back.input(0), back.input(1))));
    if (back.wants(1)) back.give(1, multiply(dy, slope_of_exponent(back.input(0), back.input(1), back.output())));
  }
  void jvp(Pushforward& push) const override {
    const Tensor &a = push.input(0), &b = push.input(1);
    if (push.has(0)) push.give(multiply(push.tangent(0), slope_of_base(a, b)));
    if (push.has(1)) push.give(multiply(push.tangent(1), slope_of_exponent(a, b, push.output())));
  }
};

}  // namespace

Var pow(const Var& x, double p, SourceLine line) {
  expect_numbers("pow", x, site_of("pow", x, line));
  return x.tape().record(PowerOfNumber(p), {x}, pow(x.value(), p), {}, line);
}

Var pow(const Var& a, const Var& b, SourceLine line) { return record_binary<Power>(a, b, pow, line); }

}  // namespace jnorm
