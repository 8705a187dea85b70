#pragma once

#include <jnorm/core/tensor.hpp>

namespace jnorm {

// [N, classes]: row n has a 1 at indices[n]. Private to the composed definitions.
Tensor one_hot(const Tensor& indices, Index classes, DType dtype);

}  // namespace jnorm
