#pragma once

// The GPU's kernels, by family; kernels.cpp puts them into the table of core/kernels.hpp, which says what each one
// does.

#include <jnorm/core/kernels.hpp>

namespace jnorm::cuda {

// All of the functions below, as core's table.
const Kernels& cuda_kernels();

// elementwise.cu. y may be an operand that is as long as it is: y = y + bias is binary(add, y, bias, y).
void fill(const Tensor& y, double value);
void convert(const Tensor& x, const Tensor& y);
void unary(UnaryOp op, const Tensor& x, const Tensor& y);
void binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& y);
void parametric(ParametricOp op, const Tensor& x, double p, double q, const Tensor& y);
void compare(CompareOp op, const Tensor& a, const Tensor& b, const Tensor& y);
void where(const Tensor& mask, const Tensor& a, const Tensor& b, const Tensor& y);
void affine(const Tensor& x, double scale, double shift, const Tensor& y);
void accumulate(const Tensor& x, double scale, const Tensor& y);

// activation.cu
void activation(Activation op, const Tensor& x, const Tensor& y);
void activation_dx(Activation op, const Tensor& dy, const Tensor& x, const Destination& dx);

// shape.cu
void broadcast(const Tensor& x, const Tensor& y);
void permute(const Tensor& x, const int* axes, const Tensor& y);
void copy_block(const Tensor& x, const BlockCopy& block, const Tensor& y);
void copy_strided(const Shape& sizes, const Tensor& x, const Strides& from, const Tensor& y, const Strides& to);

// reduction.cu
void sum(const Tensor& x, std::uint32_t kept, const Tensor& y);
void reduce(ReduceOp op, const Tensor& x, std::uint32_t kept, const Tensor& y);
void variance(const Tensor& x, std::uint32_t kept, double divisor, const Tensor& y);
void column_sum(const Tensor& x, const Destination& y);
void argmax(const Tensor& x, int axis, const Tensor& y);

// dropout.cu
void dropout(const Tensor& x, double p, const Rng::State& mask, Index period, const Tensor& y);

// indexing.cu
void index_select(const Tensor& x, int axis, const Tensor& index, const Tensor& y);
void index_add(const Tensor& x, int axis, const Tensor& index, const Tensor& y);
void gather(const Tensor& x, int axis, const Tensor& index, const Tensor& y);
void scatter_add(const Tensor& x, int axis, const Tensor& index, const Tensor& y);

// matmul.cpp
void matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, const Destination& y);
void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y);

// norm.cu, norm_backward.cu
void layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps, const Tensor& y,
                const Tensor& mean, const Tensor& rstd);
void layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                         const Destination& dx, const Destination& dgamma, const Destination& dbeta);
void rms_norm(const Tensor& x, const Tensor& gamma, double eps, const Tensor& y, const Tensor& rstd);
void rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& rstd,
                       const Destination& dx, const Destination& dgamma);
void scale_norm(const Tensor& x, const Tensor& g, double eps, const Tensor& y, const Tensor& rnorm);
void scale_norm_dx(const Tensor& dy, const Tensor& x, const Tensor& g, const Tensor& rnorm, const Destination& dx);
void scale_norm_dg(const Tensor& dy, const Tensor& x, const Tensor& rnorm, const Destination& dg);

// dynamic_tanh.cu
void dynamic_tanh(const Tensor& x, const Tensor& alpha, const Tensor& gamma, const Tensor& beta, const Tensor& y);
void dynamic_tanh_dx(const Tensor& dy, const Tensor& x, const Tensor& alpha, const Tensor& gamma,
                     const Destination& dx);
void dynamic_tanh_dparameters(const Tensor& dy, const Tensor& x, const Tensor& alpha, const Tensor& gamma,
                              const Destination& dalpha, const Destination& dgamma);

// channel_norm.cu
void channel_norm(const ChannelLayout& layout, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const Tensor& mask, double eps, const Tensor& y, const Tensor& mean, const Tensor& variance,
                  const Tensor& rstd);
void channel_norm_apply(const ChannelLayout& layout, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                        const Tensor& mask, const Tensor& mean, const Tensor& rstd, const Destination& y);
void channel_norm_backward(const ChannelLayout& layout, const Tensor& dy, const Tensor& x, const Tensor& gamma,
                           const Tensor& mask, const Tensor& mean, const Tensor& rstd, const Destination& dx,
                           const Destination& dgamma, const Destination& dbeta);

// softmax.cu
void softmax(const Tensor& x, const Tensor& y);
void softmax_dx(const Tensor& dy, const Tensor& y, const Destination& dx);
void log_softmax(const Tensor& x, const Tensor& y);
void log_softmax_dx(const Tensor& dy, const Tensor& y, const Destination& dx);

// loss.cu
void cross_entropy(const CrossEntropySettings& settings, const Tensor& logits, const Tensor& targets,
                   const Tensor& weights, const Tensor& loss, const Tensor& lse);
void cross_entropy_dx(const CrossEntropySettings& settings, const Tensor& dloss, const Tensor& logits,
                      const Tensor& targets, const Tensor& weights, const Tensor& lse, const Destination& dlogits);

// embedding.cu
void embedding(const Tensor& table, const Tensor& tokens, const Tensor& y);
void embedding_dtable(const Tensor& dy, const Tensor& tokens, const Destination& dtable);

// attention.cu
void attention(const AttentionSettings& settings, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
               const Tensor& y, const Tensor& lse);
void attention_backward(const AttentionSettings& settings, const Tensor& dy, const Tensor& q, const Tensor& k,
                        const Tensor& v, const Tensor& mask, const Tensor& y, const Tensor& lse, const Destination& dq,
                        const Destination& dk, const Destination& dv);

// rotary.cu
void rotary_table(double base, Index first_position, const Tensor& table);
void rotary(Turn turn, const Tensor& x, const Tensor& table, const Tensor& table_rows, const Destination& y);

// masked.cu
void select(const Tensor& x, const Tensor& mask, const Tensor& y);
void masked_matmul(const Tensor& a, bool transpose_a, const Tensor& b, const Tensor& mask, const Tensor& y);

// optimizer.cu
void adam(std::span<const AdamUpdate> updates);
void sgd(std::span<const SgdUpdate> updates);
void global_norm(std::span<const Tensor> parts, const Tensor& norm);
void clip_to_norm(std::span<const Tensor> xs, const Tensor& norm, double largest, std::span<const Tensor> ys);
void sum_of_squares(const Tensor& x, double& result);
void first_non_finite(const Tensor& x, Index& result);

}  // namespace jnorm::cuda
