#pragma once

#include <optional>

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// table [V, H], tokens [...] of int32 -> [..., H]. Throws Error(argument) on a token outside [0, V).
Var embedding(const Var& table, const Tensor& tokens, SourceLine line = SourceLine::here());

// The same where `padding` fills up short sequences: its row is read like any other, and gets no gradient from here.
// Throws Error(argument) if it is outside [0, V).
struct EmbeddingOptions {
  std::optional<Index> padding = {};
};
Var embedding(const Var& table, const Tensor& tokens, const EmbeddingOptions& options,
              SourceLine line = SourceLine::here());

}  // namespace jnorm
