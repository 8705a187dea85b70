#pragma once

// What the elementwise operations share: how they are recorded, and constants in their derivatives. Private.

#include <jnorm/autograd/ops/selection.hpp>
#include <jnorm/autograd/ops/shape.hpp>
#include <jnorm/autograd/site.hpp>
#include <jnorm/core/operations.hpp>

namespace jnorm {

template <class Op>
Var record_unary(const Var& x, Tensor (*compute)(const Tensor&), SourceLine line) {
  expect_numbers(Op::kDescription.name, x, site_of(Op::kDescription.name, x, line));
  return x.tape().record(Op{}, {x}, compute(x.value()), {}, line);
}

// The shape that both operands broadcast to. Throws Error(argument) with the operation's name and place.
inline Shape common_shape(const char* operation, const Shape& a, const Shape& b, const Site& site) {
  return at_site(operation, site, [&] { return broadcast_shapes(a, b); });
}

// b as a value on a's tape. A tensor becomes a constant; one that doesn't fit is refused before it is recorded.
Var operand_beside(const char* operation, const Var& a, const Operand& b);

// Records y = op(a, b) after broadcasting both to one shape.
template <class Op>
Var record_binary(Var a, Var b, Tensor (*compute)(const Tensor&, const Tensor&), SourceLine line) {
  const char* const name = Op::kDescription.name;
  const Site site = site_of(name, a, line);
  expect_same_kind(name, a, b, site);
  expect_numbers(name, a, site);
  if (a.shape() != b.shape()) {
    const Shape shape = common_shape(name, a.shape(), b.shape(), site);
    a = broadcast_to(a, shape, line);
    b = broadcast_to(b, shape, line);
  }
  return a.tape().record(Op{}, {a, b}, compute(a.value(), b.value()), {}, line);
}

// A derivative's piecewise constant factors and masks follow from values alone: they are constants in a recorded sweep.
inline const Tensor& value_of(const Tensor& x) { return x; }
inline const Tensor& value_of(const Var& x) { return x.value(); }

inline Tensor scaled(const Tensor& v, const Tensor& factor) { return multiply(v, factor); }
inline Var scaled(const Var& v, const Tensor& factor) { return v * factor; }

// x with `number` where the mask holds.
inline Tensor replaced(const Tensor& x, const Tensor& mask, double number) {
  return where(mask, full(x.shape(), number, x.dtype(), x.device()), x);
}
inline Var replaced(const Var& x, const Tensor& mask, double number) { return where(mask, number, x); }

}  // namespace jnorm
