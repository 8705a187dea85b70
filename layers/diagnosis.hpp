#pragma once

#include <string>
#include <vector>

#include <jnorm/autograd/tape.hpp>
#include <jnorm/layers/model_input.hpp>
#include <jnorm/layers/transformer_config.hpp>

namespace jnorm {

// The mistakes around normalization that are made again and again, found in what ran: one line each, which says where,
// what was seen, why it matters and what to do. Empty if all is well.

// `tape` holds a forward pass of training, of any model, and the backward pass may have followed; `input` is what the
// model read, whose masks say which positions are padding. Norms that are composed from primitive operations are looked
// at too: x times rsqrt(mean(square(x)) + eps), and what comes close to it. Changes nothing.
//
// Gamma and beta on another device than x, and, in the library's own operations, of another dtype, aren't looked for:
// they are errors as soon as they meet.
std::vector<std::string> diagnose(Tape& tape, const ModelInput& input = {});

// The same for a forward pass of an evaluation: whether it ran in training mode.
std::vector<std::string> diagnose_evaluation(const Tape& tape);

// What a configuration alone tells.
std::vector<std::string> diagnose(const TransformerConfig& config);

}  // namespace jnorm
