#pragma once

#include <span>
#include <vector>

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// Second derivatives of a scalar y, without running the recorded forward again. Its gradient is recorded on the tape,
// which grows by that, and swept.
//
// Both throw Error(argument) unless y has one element and the arguments fit each other, and Error(state) if an
// operation on the way has a derivative that can't be recorded.

// H v, where H is the Hessian of y with respect to all of xs together: element i has the shape of xs[i], and is the sum
// over j of d^2 y / (d xs[i] d xs[j]) vs[j]. Exactly zero where y doesn't depend on that x.
std::vector<Tensor> hessian_vector_product(const Var& y, std::span<const Var> xs, std::span<const Tensor> vs,
                                           SourceLine line = SourceLine::here());
Tensor hessian_vector_product(const Var& y, const Var& x, const Tensor& v, SourceLine line = SourceLine::here());

// The matrix d^2 y / d x^2, [N, N] for x with N elements. For small functions.
Tensor hessian(const Var& y, const Var& x, SourceLine line = SourceLine::here());

}  // namespace jnorm
