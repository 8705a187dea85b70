#pragma once

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// q, k, v [B, T, H] -> [B, T, H]: in each of `heads` slices of D = H / heads columns,
// softmax(q k^T / sqrt(D) where the key isn't later than the query) v. A NaN or infinity at a later position doesn't
// reach the output of an earlier one.
Var causal_attention(const Var& q, const Var& k, const Var& v, Index heads, SourceLine line = SourceLine::here());

}  // namespace jnorm
