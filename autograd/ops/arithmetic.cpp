// Sums, products and the functions that are derived from them, elementwise. Operands have one shape by the time they
// are recorded: broadcasting is an operation of its own, so no derivative here sums.

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/record.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

struct Add : Primitive<Add> {
  static constexpr Description kDescription{.name = "add", .inputs = "a b", .formula = "y = a + b", .row_inputs = 0b11};

  template <class Back>
  void pull(Back& back) const {
    if (back.wants(0)) back.give(0, back.cotangent());
    if (back.wants(1)) back.give(1, back.cotangent());
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(push.tangent(0));
    if (push.has(1)) push.give(push.tangent(1));
  }
};

struct Subtract : Primitive<Subtract> {
  static constexpr Description kDescription{
      .name = "subtract", .inputs = "a b", .formula = "y = a - b", .row_inputs = 0b11};

  template <class Back>
  void pull(Back& back) const {
    if (back.wants(0)) back.give(0, back.cotangent());
    if (back.wants(1)) back.give(1, negate(back.cotangent()));
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(push.tangent(0));
    if (push.has(1)) push.give(negate(push.tangent(1)));
  }
};

struct Multiply : Primitive<Multiply> {
  static constexpr Description kDescription{
      .name = "multiply", .inputs = "a b", .formula = "y = a * b", .saved_inputs = 0b11, .row_inputs = 0b11};

  template <class Back>
  void pull(Back& back) const {
    if (back.wants(0)) back.give(0, multiply(back.cotangent(), back.input(1)));
    if (back.wants(1)) back.give(1, multiply(back.cotangent(), back.input(0)));
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(multiply(push.tangent(0), push.input(1)));
    if (push.has(1)) push.give(multiply(push.tangent(1), push.input(0)));
  }
};

struct Divide : Primitive<Divide> {
  static constexpr Description kDescription{.name = "divide",
                                            .inputs = "a b",
                                            .formula = "y = a / b",
                                            .saved_inputs = 0b10,
                                            .saves_output = true,
                                            .row_inputs = 0b11};

  // dy/da = 1/b, dy/db = -a/b^2 = -y/b
  template <class Back>
  void pull(Back& back) const {
    if (back.wants(0)) back.give(0, divide(back.cotangent(), back.input(1)));
    if (back.wants(1)) back.give(1, negate(divide(multiply(back.cotangent(), back.output()), back.input(1))));
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(divide(push.tangent(0), push.input(1)));
    if (push.has(1)) push.give(negate(divide(multiply(push.tangent(1), push.output()), push.input(1))));
  }
};

struct Affine : Primitive<Affine> {
  static constexpr Description kDescription{
      .name = "affine", .inputs = "x", .formula = "y = scale x + shift", .row_inputs = 0b1};
  double scale;
  double shift;
  Affine(double a, double b) : scale(a), shift(b) {}
  std::optional<double> setting(std::string_view name) const override { return number_if(name == "shift", shift); }

  template <class Back>
  void pull(Back& back) const {
    if (back.wants(0)) back.give(0, affine(back.cotangent(), scale, 0.0));
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(affine(push.tangent(0), scale, 0.0));
  }
};

}  // namespace

void expect_same_kind(const char* operation, const Var& a, const Var& b, const Site& site) {
  const Tape& other = site_of(operation, b, site.line).tape;
  expect(&a.tape() == &other, site, "{}: the operands were recorded on two tapes", operation);
  expect(a.dtype() == b.dtype(), site, "{}: the operands are {} and {}; convert one with to()", operation, a.dtype(),
         b.dtype());
  expect(a.value().device() == b.value().device(), site, "{}: the operands are on {} and {}", operation,
         a.value().device().name(), b.value().device().name());
}

void expect_numbers(const char* operation, const Var& x, const Site& site) {
  expect(x.dtype() != DType::int32, site, "{}: expected a floating-point dtype, got int32", operation);
}

Var add(const Var& a, const Var& b, SourceLine line) { return record_binary<Add>(a, b, add, line); }
Var subtract(const Var& a, const Var& b, SourceLine line) { return record_binary<Subtract>(a, b, subtract, line); }
Var multiply(const Var& a, const Var& b, SourceLine line) { return record_binary<Multiply>(a, b, multiply, line); }
Var divide(const Var& a, const Var& b, SourceLine line) { return record_binary<Divide>(a, b, divide, line); }

Var affine(const Var& x, double scale, double shift, SourceLine line) {
  expect_numbers("affine", x, site_of("affine", x, line));
  return x.tape().record(Affine(scale, shift), {x}, affine(x.value(), scale, shift), {}, line);
}

Var negate(const Var& x, SourceLine line) {
  expect_numbers("negate", x, site_of("negate", x, line));
  return affine(x, -1.0, 0.0, line);
}

Var operand_beside(const char* operation, const Var& a, const Operand& b) {
  const Site site = site_of(operation, a, b.line());
  if (b.tensor() != nullptr) {
    expect(b.tensor()->defined(), site, "{}: got an undefined tensor", operation);
    expect(b.tensor()->dtype() == a.dtype(), site, "{}: the operands are {} and {}; convert one with to()", operation,
           a.dtype(), b.tensor()->dtype());
    common_shape(operation, a.shape(), b.tensor()->shape(), site);
  }
  return b.on(a.tape());
}

Var operator+(const Var& a, const Operand& b) {
  return b.is_number() ? affine(a, 1.0, b.number(), b.line()) : add(a, operand_beside("add", a, b), b.line());
}
Var operator-(const Var& a, const Operand& b) {
  return b.is_number() ? affine(a, 1.0, -b.number(), b.line())
                       : subtract(a, operand_beside("subtract", a, b), b.line());
}
Var operator*(const Var& a, const Operand& b) {
  return b.is_number() ? affine(a, b.number(), 0.0, b.line()) : multiply(a, operand_beside("multiply", a, b), b.line());
}
Var operator/(const Var& a, const Operand& b) {
  return b.is_number() ? affine(a, 1.0 / b.number(), 0.0, b.line())
                       : divide(a, operand_beside("divide", a, b), b.line());
}

Var operator+(double a, const Operand& b) { return affine(b.var(), 1.0, a, b.line()); }
Var operator-(double a, const Operand& b) { return affine(b.var(), -1.0, a, b.line()); }
Var operator*(double a, const Operand& b) { return affine(b.var(), a, 0.0, b.line()); }
Var operator/(double a, const Operand& b) { return affine(reciprocal(b.var(), b.line()), a, 0.0, b.line()); }
Var operator-(const Operand& x) { return negate(x.var(), x.line()); }

}  // namespace jnorm
