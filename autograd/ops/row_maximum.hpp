#pragma once

#include <jnorm/core/tensor.hpp>

namespace jnorm {

// The largest element of each row, [..., H] -> [..., 1]: the shift that keeps exp from overflowing. Any constant would
// do, so it takes no part in derivatives. Private to the composed definitions.
Tensor row_maximum(const Tensor& x);

}  // namespace jnorm
