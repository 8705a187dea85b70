#include "system_information.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include <jnorm/core/openblas.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/core/parallel.hpp>
#include <jnorm/cuda/device.hpp>
#include <jnorm/layers/version.hpp>

namespace jnorm {

std::string compiler_name() {
#if defined(__clang__)
  return fmt::format("clang++ {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

std::string build_description() { return JNORM_BUILD; }

std::string processor_name() {
  std::ifstream cpu_info("/proc/cpuinfo");
  for (std::string line; std::getline(cpu_info, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

int core_count() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

std::vector<std::string> cpu_features() {
  std::vector<std::string> features;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("sse4.2")) features.emplace_back("sse4.2");
  if (__builtin_cpu_supports("avx")) features.emplace_back("avx");
  if (__builtin_cpu_supports("avx2")) features.emplace_back("avx2");
  if (__builtin_cpu_supports("fma")) features.emplace_back("fma");
  if (__builtin_cpu_supports("avx512f")) features.emplace_back("avx512f");
  if (__builtin_cpu_supports("avx512dq")) features.emplace_back("avx512dq");
  if (__builtin_cpu_supports("avx512bw")) features.emplace_back("avx512bw");
  if (__builtin_cpu_supports("avx512vl")) features.emplace_back("avx512vl");
  if (__builtin_cpu_supports("avx512bf16")) features.emplace_back("avx512bf16");
#endif
  return features;
}

std::string vector_extension() {
#if defined(__AVX512F__)
  return "avx512";
#elif defined(__AVX2__)
  return "avx2";
#elif defined(__AVX__)
  return "avx";
#elif defined(__SSE2__)
  return "sse2";
#elif defined(__ARM_NEON)
  return "neon";
#else
  return "none";
#endif
}

std::string devices_description() {
  std::string text = Device::cpu().name();
  const std::string reason = cuda::why_none();
  if (!reason.empty()) return fmt::format("{} (no cuda: {})", text, reason);
  int ordinal = 0;
  for (const cuda::DeviceInformation& device : cuda::devices()) {
    text += fmt::format(", cuda:{} ({}, compute capability {}, {:.1f} GiB)", ordinal++, device.name,
                        device.compute_capability, static_cast<double>(device.memory_bytes) / (1024.0 * 1024 * 1024));
  }
  return text;
}

bool computes(DType dtype) {
  try {
    return add(ones({1}, dtype), ones({1}, dtype)).item() == 2.0;
  } catch (const Error&) {
    return false;
  }
}

std::string version_text() {
  return fmt::format(
      "jnorm {}\n"
      "BLAS      {}\n"
      "compiler  {}, {}\n"
      "devices   {}\n",
      version(), blas_description(), compiler_name(), build_description(), devices_description());
}

}  // namespace jnorm
