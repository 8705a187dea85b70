#pragma once

// Where a tape first met a NaN or an infinity.

#include <string>

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

std::string to_words(double value);  // "nan", whatever its sign; "inf", "-inf", or the number

// The place of the first NaN or infinity among the elements, or -1. Integers have none.
Index first_non_finite(const Tensor& x);

// "inf at [1, 7]"
std::string describe_element(const Tensor& x, Index element);

// For a message: "the first value that isn't finite is inf at [3, 17] of exp [16, 64] (blocks.3.attention, at
// model.cpp:88)". Empty if all values are finite.
std::string describe_non_finite_value(const Tape& tape);

// The same for the gradients of y, which are computed once more for it, and are added to those of the parameters: "the
// first gradient that isn't finite is inf at [2] of add [16, 64] (...), and comes out of the derivative of sqrt (...)".
// Empty if all gradients are finite.
std::string describe_non_finite_gradient(const Var& y);

}  // namespace jnorm
