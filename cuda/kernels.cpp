#include <jnorm/cuda/kernels.hpp>

namespace jnorm::cuda {

namespace {

constexpr Kernels kKernels{
    .fill = cuda::fill,
    .convert = cuda::convert,
    .unary = cuda::unary,
    .binary = cuda::binary,
    .parametric = cuda::parametric,
    .compare = cuda::compare,
    .where = cuda::where,
    .affine = cuda::affine,
    .accumulate = cuda::accumulate,
    .activation = cuda::activation,
    .activation_dx = cuda::activation_dx,
    .broadcast = cuda::broadcast,
    .sum = cuda::sum,
    .reduce = cuda::reduce,
    .variance = cuda::variance,
    .permute = cuda::permute,
    .copy_strided = cuda::copy_strided,
    .index_select = cuda::index_select,
    .index_add = cuda::index_add,
    .gather = cuda::gather,
    .scatter_add = cuda::scatter_add,
    .argmax = cuda::argmax,
    .dropout = cuda::dropout,
    .copy_block = cuda::copy_block,
    .matmul = cuda::matmul,
    .linear = cuda::linear,
    .column_sum = cuda::column_sum,
    .layer_norm = cuda::layer_norm,
    .layer_norm_backward = cuda::layer_norm_backward,
    .rms_norm = cuda::rms_norm,
    .rms_norm_backward = cuda::rms_norm_backward,
    .scale_norm = cuda::scale_norm,
    .scale_norm_dx = cuda::scale_norm_dx,
    .scale_norm_dg = cuda::scale_norm_dg,
    .dynamic_tanh = cuda::dynamic_tanh,
    .dynamic_tanh_dx = cuda::dynamic_tanh_dx,
    .dynamic_tanh_dparameters = cuda::dynamic_tanh_dparameters,
    .channel_norm = cuda::channel_norm,
    .channel_norm_apply = cuda::channel_norm_apply,
    .channel_norm_backward = cuda::channel_norm_backward,
    .softmax = cuda::softmax,
    .softmax_dx = cuda::softmax_dx,
    .log_softmax = cuda::log_softmax,
    .log_softmax_dx = cuda::log_softmax_dx,
    .cross_entropy = cuda::cross_entropy,
    .cross_entropy_dx = cuda::cross_entropy_dx,
    .embedding = cuda::embedding,
    .embedding_dtable = cuda::embedding_dtable,
    .attention = cuda::attention,
    .attention_backward = cuda::attention_backward,
    .rotary_table = cuda::rotary_table,
    .rotary = cuda::rotary,
    .select = cuda::select,
    .masked_matmul = cuda::masked_matmul,
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
