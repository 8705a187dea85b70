#pragma once

// Numbers that sum up a matrix, or its singular values. All are computed in float64.

#include <jnorm/core/tensor.hpp>

namespace jnorm {

// Of a square matrix [N, N]. Throw Error(argument) on any other shape.
double trace(const Tensor& matrix);
double identity_distance(const Tensor& matrix);  // ||M - I||_F / sqrt(N): 0 for I, 1 for the zero matrix

// ||a - b||_F / ||b||_F, for tensors of one shape; 0 if both are zero, infinite if only b is.
double relative_distance(const Tensor& a, const Tensor& b);

// (sum s^2)^2 / sum s^4 of the singular values s: how many of them carry the matrix; N if all are equal, 1 if one
// outweighs the rest. 0 if there are none or all are 0.
double effective_rank(const Tensor& singular_values);

// The sum of log s over the singular values s; -inf if one of them is 0, and 0 if there are none.
double log_volume(const Tensor& singular_values);

// The middle value; of an even number the mean of the two in the middle. Throws Error(argument) if there are none.
double median(const Tensor& values);

}  // namespace jnorm
