#pragma once

// The CPU's kernels, by family; cpu.cpp puts them into the table of core/kernels.hpp, which says what each one does.

#include <jnorm/core/kernels.hpp>

namespace jnorm::cpu {

// elementwise.cpp
void fill(const Tensor& y, double value);
void convert(const Tensor& x, const Tensor& y);
void unary(UnaryOp op, const Tensor& x, const Tensor& y);
void binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& y);
void parametric(ParametricOp op, const Tensor& x, double p, double q, const Tensor& y);
void compare(CompareOp op, const Tensor& a, const Tensor& b, const Tensor& y);
void where(const Tensor& mask, const Tensor& a, const Tensor& b, const Tensor& y);
void affine(const Tensor& x, double scale, double shift, const Tensor& y);
void accumulate(const Tensor& x, double scale, const Tensor& y);

// activation.cpp
void activation(Activation op, const Tensor& x, const Tensor& y);
void activation_dx(Activation op, const Tensor& dy, const Tensor& x, const Destination& dx);

// shape.cpp
void broadcast(const Tensor& x, const Tensor& y);
void permute(const Tensor& x, const int* axes, const Tensor& y);
void copy_block(const Tensor& x, const BlockCopy& block, const Tensor& y);
void copy_strided(const Shape& sizes, const Tensor& x, const Strides& from, const Tensor& y, const Strides& to);

// reduction.cpp
void sum(const Tensor& x, std::uint32_t kept, const Tensor& y);
void reduce(ReduceOp op, const Tensor& x, std::uint32_t kept, const Tensor& y);
void variance(const Tensor& x, std::uint32_t kept, double divisor, const Tensor& y);

// dropout.cpp
void dropout(const Tensor& x, double p, const Rng::State& mask, Index period, const Tensor& y);

// indexing.cpp
void index_select(const Tensor& x, int axis, const Tensor& index, const Tensor& y);
void index_add(const Tensor& x, int axis, const Tensor& index, const Tensor& y);
void gather(const Tensor& x, int axis, const Tensor& index, const Tensor& y);
void scatter_add(const Tensor& x, int axis, const Tensor& index, const Tensor& y);
void argmax(const Tensor& x, int axis, const Tensor& y);

// matmul.cpp
void matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, const Destination& y);
void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y);
void column_sum(const Tensor& x, const Destination& y);

// norm.cpp
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

// dynamic_tanh.cpp
void dynamic_tanh(const Tensor& x, const Tensor& alpha, const Tensor& gamma, const Tensor& beta, const Tensor& y);
void dynamic_tanh_dx(const Tensor& dy, const Tensor& x, const Tensor& alpha, const Tensor& gamma,
                     const Destination& dx);
void dynamic_tanh_dparameters(const Tensor& dy, const Tensor& x, const Tensor& alpha, const Tensor& gamma,
                              const Destination& dalpha, const Destination& dgamma);

// channel_norm.cpp
void channel_norm(const ChannelLayout& layout, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const Tensor& mask, double eps, const Tensor& y, const Tensor& mean, const Tensor& variance,
                  const Tensor& rstd);
void channel_norm_apply(const ChannelLayout& layout, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                        const Tensor& mask, const Tensor& mean, const Tensor& rstd, const Destination& y);
void channel_norm_backward(const ChannelLayout& layout, const Tensor& dy, const Tensor& x, const Tensor& gamma,
                           const Tensor& mask, const Tensor& mean, const Tensor& rstd, const Destination& dx,
                           const Destination& dgamma, const Destination& dbeta);

// softmax.cpp
void softmax(const Tensor& x, const Tensor& y);
void softmax_dx(const Tensor& dy, const Tensor& y, const Destination& dx);
void log_softmax(const Tensor& x, const Tensor& y);
void log_softmax_dx(const Tensor& dy, const Tensor& y, const Destination& dx);

// loss.cpp
void cross_entropy(const CrossEntropySettings& settings, const Tensor& logits, const Tensor& targets,
                   const Tensor& weights, const Tensor& loss, const Tensor& lse);
void cross_entropy_dx(const CrossEntropySettings& settings, const Tensor& dloss, const Tensor& logits,
                      const Tensor& targets, const Tensor& weights, const Tensor& lse, const Destination& dlogits);

// embedding.cpp
void embedding(const Tensor& table, const Tensor& tokens, const Tensor& y);
void embedding_dtable(const Tensor& dy, const Tensor& tokens, const Destination& dtable);

// attention.cpp
void attention(const AttentionSettings& settings, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
               const Tensor& y, const Tensor& lse);
void attention_backward(const AttentionSettings& settings, const Tensor& dy, const Tensor& q, const Tensor& k,
                        const Tensor& v, const Tensor& mask, const Tensor& y, const Tensor& lse, const Destination& dq,
                        const Destination& dk, const Destination& dv);

// rotary.cpp
void rotary_table(double base, Index first_position, const Tensor& table);
void rotary(Turn turn, const Tensor& x, const Tensor& table, const Tensor& table_rows, const Destination& y);

// masked.cpp
void select(const Tensor& x, const Tensor& mask, const Tensor& y);
void masked_matmul(const Tensor& a, bool transpose_a, const Tensor& b, const Tensor& mask, const Tensor& y);

// optimizer.cpp
void adam(std::span<const AdamUpdate> updates);
void sgd(std::span<const SgdUpdate> updates);
void global_norm(std::span<const Tensor> parts, const Tensor& norm);
void clip_to_norm(std::span<const Tensor> xs, const Tensor& norm, double largest, std::span<const Tensor> ys);
void sum_of_squares(const Tensor& x, double& result);
void first_non_finite(const Tensor& x, Index& result);

inline bool all_finite(const Tensor& x) {
  Index first = -1;
  first_non_finite(x, first);
  return first < 0;
}

}  // namespace jnorm::cpu
