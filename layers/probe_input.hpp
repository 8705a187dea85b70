#pragma once

#include <jnorm/layers/transformer.hpp>

namespace jnorm {

// What a stack of blocks is measured on where no tokens are given, from generators that nothing else draws from. Values
// are of the model's dtype and on its device.

Var drawn_input(Tape& tape, const Transformer& model, Index positions,
                std::uint64_t seed);  // N(0, 1), [1, T, dim]

// What a decoder sees of its encoder is drawn from N(0, 1) too, one position for each of its own. Other models see
// nothing beside their input.
Pass drawn_pass(Tape& tape, const Transformer& model, Index positions, std::uint64_t seed);

}  // namespace jnorm
