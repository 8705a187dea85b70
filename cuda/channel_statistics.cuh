#pragma once

// The statistics of the norms over channels, which are saved in float64.

#include <limits>

#include <jnorm/cuda/norm_kernels.cuh>

namespace jnorm::cuda {

struct ChannelStatistics {
  double mean = 0, variance = 0, rstd = 0;
};

inline constexpr double kLargestVariance = std::numeric_limits<double>::max();

// All three are 0 of nothing. A variance that float64 doesn't hold makes rstd NaN. [BN.1] [GN.1]
JNORM_DEVICE ChannelStatistics channel_statistics(const Moments<double>& moments, double eps) {
  if (moments.count == 0) return {};
  const double variance = moments.squares / moments.count;
  return {moments.mean, variance, variance <= kLargestVariance ? reciprocal_root(variance + eps) : variance * 0};
}

// Where they are left; variance may be null.
struct SavedStatistics {
  double *mean, *variance, *rstd;

  JNORM_DEVICE void leave(Index k, const ChannelStatistics& statistics) const {
    mean[k] = statistics.mean;
    if (variance != nullptr) variance[k] = statistics.variance;
    rstd[k] = statistics.rstd;
  }
};

// As LayerNorm's rows have them: the mean is rounded, and what is lost stands in the shift.
template <class W>
JNORM_DEVICE RowStatistics<true, W> rounded(double mean, double rstd) {
  const auto rounded_mean = static_cast<W>(mean);
  return {rounded_mean, static_cast<W>(rstd), static_cast<W>((rounded_mean - mean) * rstd)};
}

// What dx needs of the elements that share a statistic.
template <class W>
struct ChannelGradient {
  RowStatistics<true, W> statistics;
  W mean_u = W(0), mean_u_x_hat = W(0);
  JNORM_DEVICE W dx(W u, W x_hat) const {  // [BN.2] [GN.2]
    return (u - mean_u - x_hat * mean_u_x_hat) * statistics.rstd;
  }
};

}  // namespace jnorm::cuda
