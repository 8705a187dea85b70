#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <jnorm/core/tensor.hpp>

namespace jnorm {

// The content of a safetensors file (https://github.com/huggingface/safetensors, "Format"): the length of a JSON header
// as 8 little-endian bytes, the header, and the tensors' elements without a gap. float64, float32, bfloat16, float16
// and int32 stand there as F64, F32, BF16, F16 and I32. Positions and masks that others wrote as I64, U8 or BOOL are
// read as int32.
struct SafeTensors {
  std::vector<std::pair<std::string, Tensor>> tensors;  // sorted by name when they come from a file
  std::map<std::string, std::string> metadata;
};

// Reads the format and nothing else. Throws Error(file) with `name_for_errors` and the tensor on a truncated or hostile
// file: every byte of the data must belong to exactly one tensor, of the size that its shape says; names are unique;
// shapes have at most Shape::kMaxRank axes; an I64 fits into int32.
SafeTensors parse_safetensors(std::string_view bytes, std::string_view name_for_errors);
SafeTensors load_safetensors(const std::string& path);

// The same content gives the same bytes, in whatever order the tensors stand. Throws Error(argument) on a name that is
// used twice or isn't UTF-8, and on a tensor that isn't on the CPU.
std::string serialize_safetensors(const SafeTensors& content);
void save_safetensors(const std::string& path, const SafeTensors& content);  // atomic; see write_file_atomically

}  // namespace jnorm
