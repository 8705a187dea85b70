// Operations that choose between elements.
//
//   maximum      da = dy where a > b, dy/2 where a = b, else 0; db the rest
//   where        da = dy where the condition holds, else 0; db the rest

#include <cmath>
#include <limits>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/masked.hpp>
#include <jnorm/autograd/ops/record.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

// Each operand's share of the gradient, from their values.
struct Maximum : Primitive<Maximum> {
  static constexpr Description kDescription{
      .name = "maximum", .inputs = "a b", .formula = "y = max(a, b)", .saved_inputs = 0b11, .row_inputs = 0b11};

  template <class Back>
  void pull(Back& back) const {
    const Tensor &a = value_of(back.input(0)), &b = value_of(back.input(1));
    if (back.wants(0)) back.give(0, scaled(back.cotangent(), maximum_share(a, b)));
    if (back.wants(1)) back.give(1, scaled(back.cotangent(), maximum_share(b, a)));
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(scaled(push.tangent(0), maximum_share(push.input(0), push.input(1))));
    if (push.has(1)) push.give(scaled(push.tangent(1), maximum_share(push.input(1), push.input(0))));
  }
};

struct Minimum : Primitive<Minimum> {
  static constexpr Description kDescription{
      .name = "minimum", .inputs = "a b", .formula = "y = min(a, b)", .saved_inputs = 0b11, .row_inputs = 0b11};

  template <class Back>
  void pull(Back& back) const {
    const Tensor &a = value_of(back.input(0)), &b = value_of(back.input(1));
    if (back.wants(0)) back.give(0, scaled(back.cotangent(), maximum_share(b, a)));
    if (back.wants(1)) back.give(1, scaled(back.cotangent(), maximum_share(a, b)));
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(scaled(push.tangent(0), maximum_share(push.input(1), push.input(0))));
    if (push.has(1)) push.give(scaled(push.tangent(1), maximum_share(push.input(0), push.input(1))));
  }
};

struct Clamp : Primitive<Clamp> {
  static constexpr Description kDescription{
      .name = "clamp", .inputs = "x", .formula = "y = min(max(x, low), high)", .saved_inputs = 0b1, .row_inputs = 0b1};
  double low, high;
  Clamp(double from, double to) : low(from), high(to) {}

  template <class Back>
  void pull(Back& back) const {
    if (back.wants(0)) back.give(0, scaled(back.cotangent(), clamp_slope(value_of(back.input(0)), low, high)));
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(scaled(push.tangent(0), clamp_slope(push.input(0), low, high)));
  }
};

struct Where : Primitive<Where> {
  static constexpr Description kDescription{.name = "where",
                                            .inputs = "condition a b",
                                            .formula = "y = a where the condition holds, else b",
                                            .saved_inputs = 0b1};

  template <class Back>
  void pull(Back& back) const {
    const Tensor& holds = value_of(back.input(0));
    if (back.wants(1)) back.give(1, select(back.cotangent(), holds));
    if (back.wants(2)) back.give(2, select(back.cotangent(), logical_not(holds)));
  }
  void jvp(Pushforward& push) const override {
    const Tensor& holds = push.input(0);
    if (push.has(1)) push.give(select(push.tangent(1), holds));
    if (push.has(2)) push.give(select(push.tangent(2), logical_not(holds)));
  }
};

// A number becomes a constant beside `other`.
Var recorded(const char* operation, const Operand& operand, const Var& other) {
  expect_numbers(operation, other, site_of(operation, other, operand.line()));
  if (!operand.is_number()) return operand_beside(operation, other, operand);
  const Tensor& beside = other.value();
  return other.tape().constant(full({}, operand.number(), beside.dtype(), beside.device()), "", operand.line());
}

void expect_condition(const char* name, const Tensor& condition, const Site& site) {
  expect(condition.defined() && condition.dtype() == DType::int32, site, "{}: the condition must be int32, got {}",
         name, condition.defined() ? to_string(condition.dtype()) : "an undefined tensor");
}

}  // namespace

Var maximum(const Var& a, const Operand& b) {
  return record_binary<Maximum>(a, recorded("maximum", b, a), maximum, b.line());
}
Var minimum(const Var& a, const Operand& b) {
  return record_binary<Minimum>(a, recorded("minimum", b, a), minimum, b.line());
}

Var clamp(const Var& x, std::optional<double> low, std::optional<double> high, SourceLine line) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double from = low.value_or(-infinity), to = high.value_or(infinity);
  const Site site = site_of("clamp", x, line);
  expect_numbers("clamp", x, site);
  expect(from <= to, site, "clamp: the bounds must be numbers with low <= high, got {} and {}", from, to);
  return x.tape().record(Clamp(from, to), {x}, clamp(x.value(), from, to), {}, line);
}

Var where(const Tensor& condition, const Operand& a, const Operand& b) {
  const SourceLine line = a.line();
  expect(a.var().defined() || b.var().defined(), line,
         "where: a recorded value was expected for one of the branches, got none");
  const Var& known = a.var().defined() ? a.var() : b.var();
  const Site site = site_of("where", known, line);
  expect_condition("where", condition, site);
  Var chosen = recorded("where", a, known), other = recorded("where", b, known);
  expect_same_kind("where", chosen, other, site);
  const Shape shape =
      common_shape("where", common_shape("where", chosen.shape(), other.shape(), site), condition.shape(), site);
  chosen = broadcast_to(chosen, shape, line);
  other = broadcast_to(other, shape, line);
  Tape& tape = known.tape();
  const Var holds = tape.constant(broadcast_to(condition, shape), "", line);
  return tape.record(Where{}, {holds, chosen, other}, where(holds.value(), chosen.value(), other.value()), {}, line);
}

}  // namespace jnorm
