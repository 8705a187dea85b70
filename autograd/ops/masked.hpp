#pragma once

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// Selection by a constant mask of int32, 1 or 0, that repeats along the leading axes. What is masked reaches neither a
// result nor a gradient, even if it is NaN: these are what composed definitions with masks are made of.

Var select(const Var& x, const Tensor& mask, SourceLine line = SourceLine::here());  // x, or 0 where the mask is 0

// a [..., m, n], b [..., k, n], mask [..., m, k]: a b^T for the pairs with mask 1, 0 for the others.
Var sampled_matmul(const Var& a, const Var& b, const Tensor& mask, SourceLine line = SourceLine::here());

// a [..., m, k] and a mask of its shape: op(a) b without the elements of a that the mask has 0 for.
Var masked_matmul(const Var& a, const Var& b, const Tensor& mask, bool transpose_a = false,
                  SourceLine line = SourceLine::here());

}  // namespace jnorm
