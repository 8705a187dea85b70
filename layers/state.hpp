#pragma once

#include <string>
#include <utility>
#include <vector>

#include <jnorm/core/tensor.hpp>

namespace jnorm {

// Tensors by name, as a safetensors file holds them.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// What keeps one set of tensors from standing for another: names, and shapes in words.
struct StateDifferences {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<std::string> misshapen;

  bool none() const { return missing.empty() && unexpected.empty() && misshapen.empty(); }
  std::string in_words() const;  // "; 2 missing: a, b; 1 unexpected: c"
};

// Copies of the tensors of `given`, in whatever order they stand there, in the order and with the dtypes of `expected`.
// Strict: throws one Error(argument), "<what>: ...", that lists all names that are missing, unexpected, or of another
// shape; indices and real numbers don't replace each other.
std::vector<Tensor> match_state(const char* what, const NamedTensors& expected, const NamedTensors& given);

// A copy on the CPU, with storage of its own.
Tensor host_copy(const Tensor& tensor);

}  // namespace jnorm
