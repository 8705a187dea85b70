#pragma once

// Operations that choose between elements.

#include <optional>

#include <jnorm/autograd/ops/arithmetic.hpp>

namespace jnorm {

// The larger or smaller of two operands, which broadcast. At a tie each gets half of the gradient. A NaN on either side
// gives NaN.
Var maximum(const Var& a, const Operand& b);
Var minimum(const Var& a, const Operand& b);

// x held to [low, high]; either bound may be left out: clamp(x, {}, 1.0). The gradient passes inside the interval, its
// ends included. NaN stays NaN. Throws Error(argument) if low > high or a bound is NaN.
Var clamp(const Var& x, std::optional<double> low, std::optional<double> high = {},
          SourceLine line = SourceLine::here());

// a where the condition isn't 0, b elsewhere; all three broadcast. It selects and never multiplies: NaN or infinity in
// the branch that isn't taken reaches neither the value nor, through this operation, a gradient. The condition is an
// int32 tensor, such as less(x.value(), 0.0) gives, and a constant. One branch at least is a recorded value.
Var where(const Tensor& condition, const Operand& a, const Operand& b);

}  // namespace jnorm
