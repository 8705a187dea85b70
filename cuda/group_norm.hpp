#pragma once

// GroupNorm of groups that fit on chip, which take fewer passes over memory. False where they don't fit: then nothing
// has been done.

#include <jnorm/core/kernels.hpp>

namespace jnorm::cuda {

// group_norm.cu
bool group_norm_on_chip(const ChannelLayout& layout, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                        double eps, const Tensor& y, const Tensor& mean, const Tensor& variance, const Tensor& rstd);
// group_norm_backward.cu
bool group_norm_backward_on_chip(const ChannelLayout& layout, const Tensor& dy, const Tensor& x, const Tensor& gamma,
                                 const Tensor& mean, const Tensor& rstd, const Destination& dx,
                                 const Destination& dgamma, const Destination& dbeta);

}  // namespace jnorm::cuda
