#pragma once

// Sums, products and the operators.

#include <jnorm/autograd/tape.hpp>

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
  const Tensor* tensor() const { return tensor_; }  // null for a number or a recorded value
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

}  // namespace jnorm
