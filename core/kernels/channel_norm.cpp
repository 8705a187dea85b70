// BatchNorm and GroupNorm over [outer, channels, inner]. Derivations: autograd/ops/batch_norm.md and group_norm.md.
//
//   [BN.1] [GN.1]  x_hat = (x - mean) rstd, rstd = 1/sqrt(variance + eps)     y = gamma x_hat + beta
//   [BN.2] [GN.2]  dx = (u - mean(u) - x_hat mean(u x_hat)) rstd,             u = gamma dy
//   [BN.3] [GN.3]  dgamma = sum of dy x_hat     dbeta = sum of dy,            each over the channel
//
// One set of loops serves both; only which elements share a statistic differs. All arithmetic is in float64, statistics
// in two passes. Sums run in an order that follows from the shape alone.

#include <cmath>
#include <vector>

#include <jnorm/core/dtype.hpp>
#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/parallel.hpp>

namespace jnorm::cpu {

namespace {

// Neighbouring elements of one outer index. Along a line, the channel may move on by one an element, and the statistic
// with it (BatchNorm) or not (GroupNorm); otherwise the line lies within a channel.
template <bool ManyChannels, bool ManyStatistics>
struct Line {
  static constexpr bool kManyChannels = ManyChannels, kManyStatistics = ManyStatistics;
  Index first, length;
  Index first_channel, first_statistic, first_position;

  Index channel(Index i) const { return ManyChannels ? first_channel + i : first_channel; }
  Index statistic(Index i) const { return ManyStatistics ? first_statistic + i : first_statistic; }
  Index position(Index i) const { return ManyChannels ? first_position : first_position + i; }  // of [outer, inner]
};

// Calls body(line) for the lines of one outer index.
template <class Body>
void for_each_line(const ChannelLayout& layout, Index o, const Body& body) {
  const auto [outer, channels, inner, groups] = layout;
  const Index group_channels = groups > 0 ? channels / groups : 0;
  if (inner == 1 && groups == 0) {
    body(Line<true, true>{o * channels, channels, 0, 0, o});
  } else if (inner == 1) {
    for (Index g = 0; g < groups; ++g) {
      body(Line<true, false>{o * channels + g * group_channels, group_channels, g * group_channels, o * groups + g, o});
    }
  } else {
    for (Index c = 0; c < channels; ++c) {
      const Index statistic = groups > 0 ? o * groups + c / group_channels : c;
      body(Line<false, false>{(o * channels + c) * inner, inner, c, statistic, o * inner});
    }
  }
}

// Calls body(offset, position) for each element that one statistic is taken over.
template <class Body>
void for_each_element(const ChannelLayout& layout, Index statistic, const Body& body) {
  const auto [outer, channels, inner, groups] = layout;
  if (groups > 0) {
    const Index length = channels / groups * inner;
    for (Index i = 0; i < length; ++i) body(statistic * length + i, 0);
    return;
  }
  for (Index o = 0; o < outer; ++o) {
    for (Index i = 0; i < inner; ++i) body((o * channels + statistic) * inner + i, o * inner + i);
  }
}

template <class Body>
void for_each_outer(const ChannelLayout& layout, Index copies, const Body& body) {
  parallel_for(copies * layout.outer, grain_for(layout.channels * layout.inner), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) body(i / layout.outer, i % layout.outer);
  });
}

// Which positions count: those where a mask isn't 0; without a mask, all.
class Counted {
 public:
  explicit Counted(const Tensor& mask) : tensor_(mask), mask_(mask.defined() ? mask.data<std::int32_t>() : nullptr) {}
  bool operator()(Index position) const { return mask_ == nullptr || mask_[position] != 0; }

  // The number of elements that one statistic is taken over.
  double count(const ChannelLayout& layout) const {
    Index count = layout.groups > 0 ? layout.channels / layout.groups * layout.inner : 0;
    if (layout.groups > 0) return static_cast<double>(count);
    for (Index i = 0; i < layout.outer * layout.inner; ++i) count += (*this)(i) ? 1 : 0;
    return static_cast<double>(count);
  }

 private:
  Tensor tensor_;
  const std::int32_t* mask_;
};

// Leaves a value, or 0 where it isn't counted.
template <class T>
void put(T& to, double value, bool counted, bool add) {
  const T given = counted ? static_cast<T>(value) : T(0);
  to = add ? to + given : given;
}

struct Pair {
  double first, second;
};

// Pairs of sums for each of K copies: [K, 2, keys], where a key is a channel or a statistic.
class Sums {
 public:
  Sums(Index copies, Index keys) : keys_(keys), values_(static_cast<std::size_t>(copies * 2 * keys)) {}
  double* first(Index copy) { return values_.data() + copy * 2 * keys_; }
  double* second(Index copy) { return first(copy) + keys_; }

 private:
  Index keys_;
  std::vector<double> values_;
};

// Adds term(line, i), a Pair, to the sums of each element's key.
template <class L, class Term>
void add_line(const L& line, bool by_channel, const Term& term, double* first, double* second) {
  const auto add_each = [&](Index key) {
    for (Index i = 0; i < line.length; ++i) {
      const Pair pair = term(line, i);
      first[key + i] += pair.first;
      second[key + i] += pair.second;
    }
  };
  if constexpr (L::kManyStatistics) return add_each(line.first_channel);  // the two are the same
  if constexpr (L::kManyChannels) {
    if (by_channel) return add_each(line.first_channel);
  }
  double a = 0, b = 0;
#pragma omp simd reduction(+ : a, b)
  for (Index i = 0; i < line.length; ++i) {
    const Pair pair = term(line, i);
    a += pair.first;
    b += pair.second;
  }
  const Index key = by_channel ? line.first_channel : line.first_statistic;
  first[key] += a;
  second[key] += b;
}

// Sums over all elements of each channel. Outer indices are cut into parts, and the parts' sums added in order.
// term(copy, line, i) gives a Pair.
template <class Term>
Sums sums_by_channel(const ChannelLayout& layout, Index copies, const Term& term) {
  const Index channels = layout.channels;
  const Index part_outer = std::max<Index>(grain_for(channels * layout.inner), layout.inner == 1 ? 64 : 1);
  const Index parts = (layout.outer + part_outer - 1) / part_outer;
  Sums partial(copies * parts, channels);
  parallel_for(copies * parts, 1, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const Index copy = i / parts, from = i % parts * part_outer, to = std::min(layout.outer, from + part_outer);
      const auto own_term = [&](const auto& line, Index j) { return term(copy, line, j); };
      for (Index o = from; o < to; ++o) {
        for_each_line(layout, o,
                      [&](const auto& line) { add_line(line, true, own_term, partial.first(i), partial.second(i)); });
      }
    }
  });
  Sums sums(copies, channels);
  for (Index i = 0; i < copies * parts; ++i) {
    double* const total = sums.first(i / parts);
    const double* const part = partial.first(i);
    for (Index k = 0; k < 2 * channels; ++k) total[k] += part[k];
  }
  return sums;
}

// Sums over the elements that share a statistic.
template <class Term>
Sums sums_by_statistic(const ChannelLayout& layout, Index copies, const Term& term) {
  if (layout.groups == 0) return sums_by_channel(layout, copies, term);
  Sums sums(copies, layout.statistics());
  for_each_outer(layout, copies, [&](Index copy, Index o) {
    const auto own_term = [&](const auto& line, Index j) { return term(copy, line, j); };
    for_each_line(layout, o,
                  [&](const auto& line) { add_line(line, false, own_term, sums.first(copy), sums.second(copy)); });
  });
  return sums;
}

// A parameter of the channels as float64; ones or zeros if it is absent.
Tensor channel_values(const Tensor& parameter, Index channels, double absent) {
  return parameter.defined() ? parameter.to(DType::float64) : full({channels}, absent, DType::float64);
}

// One statistic again, with long double's exponents: float64 rows of 1e200 have squares that float64 doesn't hold.
template <class T>
void wide_statistic(const ChannelLayout& layout, Index statistic, const T* x, const Counted& counted, double count,
                    double eps, double& mean, double& variance, double& rstd) {
  long double sum = 0, squares = 0;
  for_each_element(layout, statistic, [&](Index at, Index position) { sum += counted(position) ? x[at] : T(0); });
  const long double centre = sum / count;
  for_each_element(layout, statistic, [&](Index at, Index position) {
    if (counted(position)) squares += (x[at] - centre) * (x[at] - centre);
  });
  mean = static_cast<double>(centre);
  variance = static_cast<double>(squares / count);
  rstd = static_cast<double>(1 / std::sqrt(squares / count + eps));
}

// Whether a variance plus eps has kept its precision. False for NaN.
bool in_range(double square) {
  using Limits = std::numeric_limits<double>;
  return square >= Limits::min() / Limits::epsilon() && square <= Limits::max();
}

// x_hat of a line's elements.
template <class T>
auto normalized(const T* x, const double* means, const double* rstds) {
  return [=](const auto& line, Index i) {
    return (static_cast<double>(x[line.first + i]) - means[line.statistic(i)]) * rstds[line.statistic(i)];
  };
}

// mean, the biased variance, which may be undefined, and rstd.
template <class T>
void leave_statistics(const ChannelLayout& layout, const Tensor& x, const Tensor& mask, double eps, const Tensor& mean,
                      const Tensor& variance, const Tensor& rstd) {
  const T* const in = x.data<T>();
  const Counted counted(mask);
  const double count = counted.count(layout);
  const Index statistics = layout.statistics();
  double *const means = mean.output_data<double>(), *const rstds = rstd.output_data<double>();
  double* const variances = variance.defined() ? variance.output_data<double>() : nullptr;
  if (count == 0) {  // nothing to normalize
    for (double* const values : {means, variances, rstds}) {
      if (values != nullptr) std::fill_n(values, statistics, 0.0);
    }
    return;
  }
  Sums sums = sums_by_statistic(layout, 1, [&](Index, const auto& line, Index i) {
    return Pair{counted(line.position(i)) ? static_cast<double>(in[line.first + i]) : 0.0, 0.0};
  });
  for (Index s = 0; s < statistics; ++s) means[s] = sums.first(0)[s] / count;
  Sums rest = sums_by_statistic(layout, 1, [&](Index, const auto& line, Index i) {
    const double centred = static_cast<double>(in[line.first + i]) - means[line.statistic(i)];
    return counted(line.position(i)) ? Pair{centred, centred * centred} : Pair{0.0, 0.0};
  });
  for (Index s = 0; s < statistics; ++s) {
    const double correction = rest.first(0)[s] / count;  // the first mean was rounded
    means[s] += correction;
    double square = rest.second(0)[s] / count - correction * correction;
    rstds[s] = 1.0 / std::sqrt(square + eps);
    if (!in_range(square + eps)) [[unlikely]]
      wide_statistic(layout, s, in, counted, count, eps, means[s], square, rstds[s]);
    if (variances != nullptr) variances[s] = square;
  }
}

template <class T>
void apply_statistics(const ChannelLayout& layout, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                      const Tensor& mask, const Tensor& mean, const Tensor& rstd, const Destination& y) {
  const Tensor scale = channel_values(gamma, layout.channels, 1.0), offset = channel_values(beta, layout.channels, 0.0);
  const double *const scales = scale.data<double>(), *const offsets = offset.data<double>();
  const auto x_hat = normalized(x.data<T>(), mean.data<double>(), rstd.data<double>());
  const Counted counted(mask);
  T* const out = y.tensor.output_data<T>();
  for_each_outer(layout, 1, [&](Index, Index o) {
    for_each_line(layout, o, [&](const auto& line) {
#pragma omp simd
      for (Index i = 0; i < line.length; ++i) {
        const double value = scales[line.channel(i)] * x_hat(line, i) + offsets[line.channel(i)];  // [BN.1] [GN.1]
        put(out[line.first + i], value, counted(line.position(i)), y.add);
      }
    });
  });
}

template <class T>
void channel_norm_dx(const ChannelLayout& layout, const Tensor& dy, const Tensor& x, const Tensor& gamma,
                     const Tensor& mask, const Tensor& mean, const Tensor& rstd, const Destination& dx) {
  if (!dx.wanted() || x.size() == 0) return;
  const Tensor scale = channel_values(gamma, layout.channels, 1.0);
  const double *const scales = scale.data<double>(), *const rstds = rstd.data<double>();
  const auto x_hat = normalized(x.data<T>(), mean.data<double>(), rstds);
  const T* const cotangents = dy.data<T>();
  T* const out = dx.tensor.output_data<T>();
  const Counted counted(mask);
  const double count = counted.count(layout);
  const Index copies = dy.size() / x.size();
  const auto u = [&](Index copy, const auto& line, Index i) {
    return scales[line.channel(i)] * static_cast<double>(cotangents[copy * x.size() + line.first + i]);
  };
  Sums sums = sums_by_statistic(layout, copies, [&](Index copy, const auto& line, Index i) {
    const double element = u(copy, line, i);
    return counted(line.position(i)) ? Pair{element, element * x_hat(line, i)} : Pair{0.0, 0.0};
  });
  for_each_outer(layout, copies, [&](Index copy, Index o) {
    const double *const sum_u = sums.first(copy), *const sum_u_x_hat = sums.second(copy);
    for_each_line(layout, o, [&](const auto& line) {
      T* const to = out + copy * x.size() + line.first;
      for (Index i = 0; i < line.length; ++i) {
        const Index s = line.statistic(i);
        const double through_statistics = (sum_u[s] + x_hat(line, i) * sum_u_x_hat[s]) / count;
        const double value = (u(copy, line, i) - through_statistics) * rstds[s];  // [BN.2] [GN.2]
        put(to[i], value, counted(line.position(i)), dx.add);
      }
    });
  });
}

template <class T>
void channel_norm_dparameters(const ChannelLayout& layout, const Tensor& dy, const Tensor& x, const Tensor& mask,
                              const Tensor& mean, const Tensor& rstd, const Destination& dgamma,
                              const Destination& dbeta) {
  const Destination& wanted = dgamma.wanted() ? dgamma : dbeta;
  if (!wanted.wanted() || layout.channels == 0) return;
  const auto x_hat = normalized(x.data<T>(), mean.data<double>(), rstd.data<double>());
  const T* const cotangents = dy.data<T>();
  const Counted counted(mask);
  const Index copies = wanted.tensor.size() / layout.channels;
  Sums sums = sums_by_channel(layout, copies, [&](Index copy, const auto& line, Index i) {
    const double element = static_cast<double>(cotangents[copy * x.size() + line.first + i]);
    return counted(line.position(i)) ? Pair{element * x_hat(line, i), element} : Pair{0.0, 0.0};  // [BN.3] [GN.3]
  });
  for (Index copy = 0; copy < copies; ++copy) {
    const auto leave = [&](const Destination& result, const double* from) {
      if (!result.wanted()) return;
      T* const to = result.tensor.template output_data<T>() + copy * layout.channels;
      for (Index c = 0; c < layout.channels; ++c) to[c] = static_cast<T>(result.add ? to[c] + from[c] : from[c]);
    };
    leave(dgamma, sums.first(copy));
    leave(dbeta, sums.second(copy));
  }
}

}  // namespace

void channel_norm(const ChannelLayout& layout, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const Tensor& mask, double eps, const Tensor& y, const Tensor& mean, const Tensor& variance,
                  const Tensor& rstd) {
  dispatch_wide("channel_norm", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    leave_statistics<T>(layout, x, mask, eps, mean, variance, rstd);
    apply_statistics<T>(layout, x, gamma, beta, mask, mean, rstd, {.tensor = y});
  });
}

void channel_norm_apply(const ChannelLayout& layout, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                        const Tensor& mask, const Tensor& mean, const Tensor& rstd, const Destination& y) {
  if (!y.wanted()) return;
  dispatch_wide("channel_norm_apply", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    apply_statistics<T>(layout, x, gamma, beta, mask, mean, rstd, y);
  });
}

void channel_norm_backward(const ChannelLayout& layout, const Tensor& dy, const Tensor& x, const Tensor& gamma,
                           const Tensor& mask, const Tensor& mean, const Tensor& rstd, const Destination& dx,
                           const Destination& dgamma, const Destination& dbeta) {
  dispatch_wide("channel_norm_backward", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    channel_norm_dx<T>(layout, dy, x, gamma, mask, mean, rstd, dx);
    channel_norm_dparameters<T>(layout, dy, x, mask, mean, rstd, dgamma, dbeta);
  });
}

}  // namespace jnorm::cpu
