// libFuzzer's target for the safetensors reader: whatever the bytes are, it takes them or throws jnorm::Error, and what
// it takes can be written and read again. To build it and run it for a minute:
//
//   cmake --preset asan -B build/fuzz -D CMAKE_CXX_COMPILER=clang++ -D JNORM_FUZZERS=ON
//         -D JNORM_SANITIZERS=address,undefined,fuzzer-no-link
//   cmake --build build/fuzz --target safetensors_fuzzer && build/fuzz/bin/safetensors_fuzzer -max_total_time=60

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <jnorm/core/error.hpp>
#include <jnorm/core/safetensors.hpp>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it by this name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  jnorm::SafeTensors content;
  try {
    content = jnorm::parse_safetensors({reinterpret_cast<const char*>(bytes), size}, "input");
  } catch (const jnorm::Error&) {
    return 0;
  }
  const std::string written = jnorm::serialize_safetensors(content);
  if (jnorm::serialize_safetensors(jnorm::parse_safetensors(written, "written")) != written) std::abort();
  return 0;
}
