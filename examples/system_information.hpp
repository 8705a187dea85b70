#pragma once

#include <string>
#include <vector>

#include <jnorm/core/dtype.hpp>

namespace jnorm {

// What this build is made of and what it runs on.
std::string compiler_name();              // "g++ 12.2.0"
std::string build_description();          // "Release, -march=native"
std::string processor_name();             // as the system calls it, or "unknown"
int core_count();                         // cores that this process may run on
std::vector<std::string> cpu_features();  // the vector extensions that the processor has, of those that matter here
std::string vector_extension();           // the widest one that this build uses: "avx512"
std::string devices_description();        // "cpu (no cuda: no driver)", or "cpu, cuda:0 (NVIDIA H200, 9.0, 139.8 GiB)"
bool computes(DType dtype);               // whether the CPU's kernels do arithmetic in it, tried out

std::string version_text();  // the lines of `jnorm --version`

}  // namespace jnorm
