#include <jnorm/cuda/kernels.hpp>

namespace jnorm::cuda {

namespace {

constexpr Kernels kKernels{
    .sum = cuda::sum,
    .reduce = cuda::reduce,
    .argmax = cuda::argmax,
    .column_sum = cuda::column_sum,
    .adam = cuda::adam,
    .sgd = cuda::sgd,
    .global_norm = cuda::global_norm,
    .clip_to_norm = cuda::clip_to_norm,
    .sum_of_squares = cuda::sum_of_squares,
    .first_non_finite = cuda::first_non_finite,
};

}  // namespace

const Kernels& cuda_kernels() { return kKernels; }

}  // namespace jnorm::cuda
