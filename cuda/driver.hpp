#pragma once

// What this library asks of CUDA's runtime, in plain C++. driver.cpp answers with the runtime itself; where the tests
// execute kernels on a CPU, tests/cuda/execution answers with the host's memory. A failing call is an Error(io) that
// says what was asked and CUDA's reason.

#include <cstddef>
#include <string>
#include <vector>

#include <jnorm/cuda/config.hpp>

namespace jnorm::cuda::driver {

using Stream = void*;

struct DeviceProperties {
  std::string name;              // "NVIDIA H200"
  int major = 0, minor = 0;      // compute capability
  std::size_t memory_bytes = 0;  // all of it
  DeviceLimits limits;
};

struct Count {
  int devices = 0;
  std::string why_none;  // CUDA's reason where there is none
};

struct Memory {
  std::size_t free_bytes = 0, all_bytes = 0;
};

Count count_devices();
DeviceProperties properties(int ordinal);

// Makes it the one that the calling thread's next calls are about.
void use_device(int ordinal);
Stream make_stream(int ordinal);
void synchronize(Stream stream);

// How large a block serves a request of so many bytes, so that it serves others of about that size too.
std::size_t block_bytes(std::size_t bytes);
// Null if there isn't so much memory. What is released is still there for what was queued on the stream before.
void* allocate(int ordinal, std::size_t bytes);
void release(int ordinal, void* memory) noexcept;
Memory memory(int ordinal);

// The host's memory is free for other use on return; copy_to_host waits for all that the stream does before.
void copy_from_host(Stream stream, void* to, const void* from, std::size_t bytes);
void copy_to_host(Stream stream, void* to, const void* from, std::size_t bytes);
void copy_on_device(Stream stream, void* to, const void* from, std::size_t bytes);
void fill_zero(Stream stream, void* memory, std::size_t bytes);

}  // namespace jnorm::cuda::driver
