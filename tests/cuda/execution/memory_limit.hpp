#pragma once

#include <cstddef>

namespace jnorm::cuda::execution {

constexpr std::size_t kDefaultMemoryLimit = std::size_t{8} * 1024 * 1024 * 1024;

// What the executed device has of memory from now on, so that a test can use it up.
void set_memory_limit(std::size_t bytes);

}  // namespace jnorm::cuda::execution
