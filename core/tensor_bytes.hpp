#pragma once

// Private to the file formats: a tensor's elements as they stand in a file.

#include <string_view>

#include <jnorm/core/tensor.hpp>

namespace jnorm {

// The elements, row-major and little-endian. The view lives as long as the tensor's storage. Throws Error(argument) if
// the tensor is undefined or not on the CPU.
std::string_view bytes_of(const Tensor& tensor);

// A tensor with elements copied from `bytes`, however these are aligned. Throws Error(argument) on a wrong length.
Tensor tensor_from_bytes(const Shape& shape, DType dtype, std::string_view bytes);

}  // namespace jnorm
