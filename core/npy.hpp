#pragma once

#include <string>
#include <string_view>

#include <jnorm/core/tensor.hpp>

namespace jnorm {

// NumPy's npy format (numpy.lib.format), versions 1.0 and 2.0: magic, version, a header such as
// "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", elements. float64, float32, float16 and int32 stand
// there as '<f8', '<f4', '<f2' and '<i4'; bfloat16 has no name there. A file in Fortran order (the first axis varies
// fastest) gives the same matrix as NumPy shows.

// Throws Error(file) with `name_for_errors` on anything else, and on missing or surplus bytes.
Tensor parse_npy(std::string_view bytes, std::string_view name_for_errors);
Tensor load_npy(const std::string& path);

// Version 1.0 in C order. Throws Error(argument) for bfloat16.
std::string serialize_npy(const Tensor& tensor);
void save_npy(const std::string& path, const Tensor& tensor);  // atomic; see write_file_atomically

}  // namespace jnorm
