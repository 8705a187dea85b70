#pragma once

#include <optional>

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// Which keys a query sees, all conditions together, and how its scores are scaled. Masks are of int32: 1 = attend, 0 =
// don't.
struct AttentionOptions {
  // Query i sees the keys up to i + Tk - Tq: with as many keys as queries, itself and the earlier ones. With more keys,
  // the last query is aligned with the last key, as when a cache holds the keys of earlier positions.
  bool causal = false;
  Tensor key_mask = {};                        // [B, Tk]: padding, the same for all queries of a sequence
  Tensor mask = {};                            // [Tq, Tk], [B, Tq, Tk] or [B, heads, Tq, Tk]
  std::optional<double> scale = std::nullopt;  // of the scores; by default 1 / sqrt(D)
  // Heads of k and v, a divisor of the query's, where 0 is as many: query head h reads key head h / (heads /
  // key_heads). Fewer ones make grouped-query attention (Ainslie et al. 2023), a single one multi-query attention.
  Index key_heads = 0;
};

// q [B, Tq, heads D], k [B, Tk, key_heads D], v [B, Tk, key_heads Dv] -> [B, Tq, heads Dv]: in each head's slice of the
// columns, softmax(scale q k^T where the query sees the key) v.
//
// Masks select: a key that a query doesn't see changes neither its output nor any gradient through it, even if it is
// NaN or infinite, and gets a probability of exactly 0. A query that sees no key has the output 0 and zero derivatives
// of every order. A NaN that a query does see makes its row NaN.
Var attention(const Var& q, const Var& k, const Var& v, Index heads, const AttentionOptions& options = {},
              SourceLine line = SourceLine::here());

// The same with {.causal = true}.
Var causal_attention(const Var& q, const Var& k, const Var& v, Index heads, SourceLine line = SourceLine::here());

}  // namespace jnorm
