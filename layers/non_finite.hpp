#pragma once

#include <string>

#include <jnorm/autograd/tape.hpp>
#include <jnorm/layers/state.hpp>

namespace jnorm {

std::string to_words(double value);  // "nan", whatever its sign; "inf", "-inf", or the number

// Where a tape first met a NaN or an infinity, for a message: "the first value that isn't finite is inf at [3, 17] of
// exp [16, 64] (blocks.3.attention, at model.cpp:88)". Empty if all values are finite.
std::string describe_non_finite_value(const Tape& tape);

// The same for the gradients of y, which are computed once more for it, and are added to those of the parameters: "the
// first gradient that isn't finite is inf at [2] of add [16, 64] (...), and comes out of the derivative of sqrt (...)".
// Empty if all gradients are finite.
std::string describe_non_finite_gradient(const Var& y);

// Of named weights: "weight token_embedding.table [256, 8] is nan at [0, 3]". Empty if all are finite.
std::string describe_non_finite_weight(const NamedTensors& weights);

}  // namespace jnorm
