#include <jnorm/cuda/driver.hpp>

#include <bit>

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <jnorm/core/expect.hpp>
#include <jnorm/cuda/context.hpp>

namespace jnorm::cuda {

namespace {

// Throws unless CUDA answered with success. The error is cleared, so that the next call doesn't answer with it again.
template <class... Arguments>
void expect_success(cudaError_t code, fmt::format_string<Arguments...> asked, Arguments&&... arguments) {
  if (code == cudaSuccess) return;
  cudaGetLastError();
  throw DeviceFailure(fmt::format("{}: CUDA says: {}", fmt::format(asked, std::forward<Arguments>(arguments)...),
                                  cudaGetErrorString(code)));
}

cudaStream_t stream_of(driver::Stream stream) { return static_cast<cudaStream_t>(stream); }

int attribute(int ordinal, cudaDeviceAttr name) {
  int value = 0;
  expect_success(cudaDeviceGetAttribute(&value, name, ordinal), "cuda:{}: its attributes can't be read", ordinal);
  return value;
}

std::string to_string(const LaunchConfig& config) {
  return fmt::format("{} x {} blocks of {} threads with {} bytes of shared memory", config.blocks_x, config.blocks_y,
                     config.threads, config.shared_bytes);
}

}  // namespace

void launch_kernel(const char* operation, Context& context, const LaunchConfig& config, const void* kernel,
                   void** arguments) {
  const auto describe = [&] {
    return fmt::format("{} on {} ({})", operation, Device(context.interface).name(), to_string(config));
  };
  if (config.blocks_x > kMaxBlocksX || config.blocks_y > kMaxBlocksY || config.threads > kMaxThreads) {
    throw DeviceFailure(fmt::format("{}: no device launches so many", describe()));
  }
  if (config.shared_bytes > kDefaultSharedBytes) {
    expect_success(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(config.shared_bytes)),
                   "{}", describe());
  }
  driver::use_device(context.interface.ordinal);
  const dim3 grid(static_cast<unsigned>(config.blocks_x), static_cast<unsigned>(config.blocks_y));
  const cudaError_t code = cudaLaunchKernel(kernel, grid, dim3(static_cast<unsigned>(config.threads)), arguments,
                                            static_cast<std::size_t>(config.shared_bytes), stream_of(context.stream));
  expect_success(code, "{}", describe());
}

namespace driver {

Count count_devices() {
  Count count;
  const cudaError_t code = cudaGetDeviceCount(&count.devices);
  if (code == cudaSuccess && count.devices > 0) return count;
  cudaGetLastError();
  count.devices = 0;
  if (code == cudaSuccess || code == cudaErrorNoDevice) {
    count.why_none = "no device";
  } else if (void* const library = dlopen("libcuda.so.1", RTLD_LAZY); library == nullptr) {
    count.why_none = "no driver (libcuda.so.1)";
  } else {
    dlclose(library);
    count.why_none = cudaGetErrorString(code);
  }
  return count;
}

DeviceProperties properties(int ordinal) {
  cudaDeviceProp found{};
  expect_success(cudaGetDeviceProperties(&found, ordinal), "cuda:{}: its properties can't be read", ordinal);
  return {.name = found.name,
          .major = found.major,
          .minor = found.minor,
          .memory_bytes = found.totalGlobalMem,
          .limits = {.multiprocessors = found.multiProcessorCount,
                     .threads_per_multiprocessor = found.maxThreadsPerMultiProcessor,
                     .shared_bytes_per_block = attribute(ordinal, cudaDevAttrMaxSharedMemoryPerBlockOptin)}};
}

void use_device(int ordinal) {
  thread_local int current = -1;
  if (current == ordinal) return;
  expect_success(cudaSetDevice(ordinal), "cuda:{}: it can't be used", ordinal);
  current = ordinal;
}

Stream make_stream(int ordinal) {
  use_device(ordinal);
  cudaStream_t stream = nullptr;
  expect_success(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cuda:{}: no stream", ordinal);
  return stream;
}

void synchronize(Stream stream) { expect_success(cudaStreamSynchronize(stream_of(stream)), "cuda: a kernel failed"); }

// Rounded up to one of four steps between powers of two, from 512 bytes on: CUDA's own granularity.
std::size_t block_bytes(std::size_t bytes) {
  constexpr std::size_t smallest = 512;
  if (bytes <= smallest) return smallest;
  const std::size_t step = std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

void* allocate(int ordinal, std::size_t bytes) {
  use_device(ordinal);
  void* memory = nullptr;
  const cudaError_t code = cudaMalloc(&memory, bytes);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  expect_success(code, "cuda:{}: {} bytes of memory", ordinal, bytes);
  return memory;
}

void release(int /*ordinal*/, void* memory) noexcept { cudaFree(memory); }

Memory memory(int ordinal) {
  use_device(ordinal);
  Memory memory;
  expect_success(cudaMemGetInfo(&memory.free_bytes, &memory.all_bytes), "cuda:{}: its memory can't be read", ordinal);
  return memory;
}

void copy_from_host(Stream stream, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  expect_success(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_of(stream)),
                 "cuda: a copy of {} bytes to the device", bytes);
}

void copy_to_host(Stream stream, void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) {
    expect_success(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_of(stream)),
                   "cuda: a copy of {} bytes to the host, or a kernel before it", bytes);
  }
  synchronize(stream);
}

void copy_on_device(Stream stream, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  expect_success(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_of(stream)),
                 "cuda: a copy of {} bytes on the device", bytes);
}

void fill_zero(Stream stream, void* memory, std::size_t bytes) {
  if (bytes == 0) return;
  expect_success(cudaMemsetAsync(memory, 0, bytes, stream_of(stream)), "cuda: {} bytes set to zero", bytes);
}

}  // namespace driver

}  // namespace jnorm::cuda
