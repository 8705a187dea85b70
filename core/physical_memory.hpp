#pragma once

#include <jnorm/core/shape.hpp>

namespace jnorm {

// Bytes of main memory that this machine has, in use or not; the largest Index if the system doesn't say.
Index physical_memory();

}  // namespace jnorm
