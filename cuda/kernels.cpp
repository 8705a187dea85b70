#include <jnorm/cuda/kernels.hpp>

namespace jnorm::cuda {

namespace {

constexpr Kernels kKernels{};

}  // namespace

const Kernels& cuda_kernels() { return kKernels; }

}  // namespace jnorm::cuda
