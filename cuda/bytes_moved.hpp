#pragma once

// Bytes of device memory that a kernel has to read and write at least: what a benchmark divides by its time. R rows of
// H elements of s bytes each.

#include <jnorm/core/shape.hpp>

namespace jnorm::cuda {}  // namespace jnorm::cuda
