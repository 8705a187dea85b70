// BatchNorm and GroupNorm: see channel_norm_kernels.cuh.

#include <algorithm>
#include <utility>

#include <jnorm/cuda/channel_norm_kernels.cuh>
#include <jnorm/cuda/column_parts.cuh>
#include <jnorm/cuda/group_norm.hpp>
#include <jnorm/cuda/kernels.hpp>

namespace jnorm::cuda {

namespace {

template <class T>
ChannelNorm<T> channel_norm_of(const ChannelLayout& layout, const Tensor& x, const Tensor& mask, const Tensor& mean,
                               const Tensor& rstd) {
  const bool by_group = layout.inner == 1 && layout.groups > 0;
  const Index lines_of_outer = by_group ? layout.groups : layout.channels;
  ChannelNorm<T> norm;
  norm.layout = layout;
  norm.statistic_count = layout.statistics();
  norm.group_channels = Divisor(layout.groups > 0 ? layout.channels / layout.groups : 1);
  norm.lines = Divisor(layout.outer * lines_of_outer);
  norm.lines_of_outer = Divisor(lines_of_outer);
  norm.line_length = Divisor(by_group ? layout.channels / layout.groups : layout.inner);
  norm.x = input<T>(x);
  norm.mask = input<std::int32_t>(mask);
  norm.mean = input<double>(mean);
  norm.rstd = input<double>(rstd);
  return norm;
}

// Whether threads walk down columns to sum by channel: [outer, channels], however grouped.
bool by_columns(const ChannelLayout& layout) { return layout.inner == 1; }

// Calls f with the size of the packs that elements side by side are read in, as a constant.
template <class T, int Most = 8, class F>
void with_pack(Index length, const F& f) {
  constexpr int pack = std::min(kRowPack<T>, Most);
  if (length % pack == 0) {
    f(std::integral_constant<int, pack>());
  } else if constexpr (pack > 1) {
    f(std::integral_constant<int, 1>());
  }
}

// Device memory for states of float64.
template <class State>
Tensor scratch(Index count, Device device) {
  return Tensor::uninitialized(Shape{count * static_cast<Index>(sizeof(State) / sizeof(double))}, DType::float64,
                               device);
}

// Sums over parts of the elements, and which of them make up the sums by channel or by statistic.
struct Parts {
  Tensor states;
  PartsOfSum of;
};

// The parts of columns: one sum for each channel.
template <class State, class T, class Launch>
Parts column_parts(const ChannelNorm<T>& norm, Index copies, Device device, const Launch& launch_with) {
  const Index channels = norm.layout.channels;
  Parts parts;
  constexpr int most = 4;  // each column has some float64 registers
  with_pack<T, most>(channels, [&](auto pack) {
    const ColumnWalk walk = column_walk(norm.layout.outer, channels / pack(), copies);
    parts.states = scratch<State>(copies * walk.parts * channels, device);
    parts.of = {.sums = channels,
                .base = 1,
                .stride = channels,
                .height = walk.parts,
                .width = 1,
                .all = walk.parts * channels};
    launch_with(pack, walk, column_walk_config(walk, copies, sizeof(State)), output<State>(parts.states));
  });
  return parts;
}

// The parts of lines. `of` says in lines which of them make up a sum.
template <class State, class T, class Launch>
Parts line_parts(Index lines, Index length, Index copies, PartsOfSum of, Device device, const Launch& launch_with) {
  Parts parts{.states = {}, .of = of};
  with_pack<T>(length, [&](auto pack) {
    const LineWalk walk = line_walk(lines, length, pack());
    parts.states = scratch<State>(copies * lines * walk.segments, device);
    parts.of.width = walk.segments;
    parts.of.all = lines * walk.segments;
    launch_with(pack, walk, line_walk_config(walk, copies), output<State>(parts.states));
  });
  return parts;
}

// Which of the parts of outer * channels lines make up a sum by channel; by statistic.
PartsOfSum by_channel(const ChannelLayout& layout) {
  return {.sums = layout.channels, .base = 1, .stride = layout.channels, .height = layout.outer, .width = 1, .all = 0};
}
PartsOfSum by_group(const ChannelLayout& layout) {
  const Index channels = layout.channels / layout.groups;
  return {
      .sums = layout.outer * layout.groups, .base = channels, .stride = 1, .height = channels, .width = 1, .all = 0};
}

template <class T>
Parts moments_of(const ChannelNorm<T>& norm, Context& context, Device device) {
  const auto [outer, channels, inner, groups] = norm.layout;
  if (groups == 0 && by_columns(norm.layout)) {
    return column_parts<Moments<double>>(norm, 1, device, [&](auto pack, auto walk, auto config, auto* parts) {
      launch("channel_norm", context, config, column_moments<T, pack()>, norm, walk, parts);
    });
  }
  const Index lines = groups > 0 ? outer * groups : outer * channels;
  const Index length = groups > 0 ? channels / groups * inner : inner;
  const PartsOfSum each{.sums = lines, .base = 1, .stride = 0, .height = 1, .width = 1, .all = 0};
  const PartsOfSum of = groups > 0 ? each : by_channel(norm.layout);
  return line_parts<Moments<double>, T>(
      lines, length, 1, of, device, [&](auto pack, auto walk, auto config, auto* parts) {
        launch("channel_norm", context, config, line_moments<T, pack()>, norm, walk, parts);
      });
}

template <class T>
Parts line_gradient_sums(const ChannelNorm<T>& norm, Index copies, const PartsOfSum& of, Context& context,
                         Device device) {
  return line_parts<GradientSums, T>(norm.lines.value(), norm.line_length.value(), copies, of, device,
                                     [&](auto pack, auto walk, auto config, auto* parts) {
                                       launch("channel_norm_backward", context, config, line_sums<T, pack()>, norm,
                                              walk, copies, parts);
                                     });
}

// Of dy, by channel.
template <class T>
Parts channel_sums(const ChannelNorm<T>& norm, Index copies, Context& context, Device device) {
  if (!by_columns(norm.layout)) {
    return line_gradient_sums(norm, copies, by_channel(norm.layout), context, device);
  }
  return column_parts<GradientSums>(norm, copies, device, [&](auto pack, auto walk, auto config, auto* parts) {
    launch("channel_norm_backward", context, config, column_sums<T, pack()>, norm, walk, parts);
  });
}

// y or dx of all elements.
template <template <class> class Element, class T>
void launch_elements(const char* operation, Context& context, const ChannelNorm<T>& norm, Index copies,
                     const GradientMeans* means, const Destination& result) {
  const ChannelLayout& layout = norm.layout;
  T* const to = output<T>(result.tensor);
  if (layout.inner == 1 && layout.groups == 0) {
    with_pack<T>(layout.channels, [&](auto pack) {
      const ColumnWalk walk = column_walk(layout.outer, layout.channels / pack(), copies);
      launch(operation, context, column_walk_config(walk, copies, 0), column_elements<Element, T, pack()>, norm, walk,
             means, to, result.add);
    });
    return;
  }
  with_pack<T>(norm.line_length.value(), [&](auto pack) {
    const Index packs = copies * layout.outer * layout.channels * layout.inner / pack();
    launch(operation, context, elementwise_config(packs, 1, context.limits()), line_elements<Element, T, pack()>, norm,
           packs, means, to, result.add);
  });
}

}  // namespace

void channel_norm(const ChannelLayout& layout, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const Tensor& mask, double eps, const Tensor& y, const Tensor& mean, const Tensor& variance,
                  const Tensor& rstd) {
  constexpr const char* operation = "channel_norm";
  if (x.size() == 0) {
    for (const Tensor& statistic : {mean, variance, rstd}) leave_zero({.tensor = statistic});
    return;
  }
  if (layout.groups > 0 && group_norm_on_chip(layout, x, gamma, beta, eps, y, mean, variance, rstd)) return;
  dispatch_device(operation, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto norm = channel_norm_of<T>(layout, x, mask, {}, {});
    const Parts parts = moments_of(norm, context_of(x), x.device());
    launch(operation, context_of(x), warp_each_config(parts.of.sums), leave_statistics<Moments<double>>,
           input<Moments<double>>(parts.states), parts.of, eps,
           SavedStatistics{output<double>(mean), output<double>(variance), output<double>(rstd)});
  });
  channel_norm_apply(layout, x, gamma, beta, mask, mean, rstd, {.tensor = y});
}

void channel_norm_apply(const ChannelLayout& layout, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                        const Tensor& mask, const Tensor& mean, const Tensor& rstd, const Destination& y) {
  if (!y.wanted() || x.size() == 0) return;
  dispatch_device("channel_norm_apply", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    auto norm = channel_norm_of<T>(layout, x, mask, mean, rstd);
    norm.gamma = input<T>(gamma);
    norm.beta = input<T>(beta);
    launch_elements<ForwardElement>("channel_norm_apply", context_of(x), norm, 1, nullptr, y);
  });
}

void channel_norm_backward(const ChannelLayout& layout, const Tensor& dy, const Tensor& x, const Tensor& gamma,
                           const Tensor& mask, const Tensor& mean, const Tensor& rstd, const Destination& dx,
                           const Destination& dgamma, const Destination& dbeta) {
  constexpr const char* operation = "channel_norm_backward";
  if (x.size() == 0 || dy.size() == 0) {
    leave_zero(dgamma);
    leave_zero(dbeta);
    return;
  }
  const bool parameters = dgamma.wanted() || dbeta.wanted();
  if (!dx.wanted() && !parameters) return;
  if (layout.groups > 0 && group_norm_backward_on_chip(layout, dy, x, gamma, mean, rstd, dx, dgamma, dbeta)) return;
  dispatch_device(operation, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    Context& context = context_of(x);
    const Index copies = dy.size() / x.size();
    auto norm = channel_norm_of<T>(layout, x, mask, mean, rstd);
    norm.dy = input<T>(dy);
    norm.gamma = input<T>(gamma);
    const bool lines_are_groups = layout.groups > 0 && layout.inner == 1;  // whose sums are of no use to channels
    Parts parts;
    if (parameters || !lines_are_groups) parts = channel_sums(norm, copies, context, x.device());
    if (parameters) {
      launch(operation, context, warp_each_config(copies * parts.of.sums), leave_parameters<T>,
             input<GradientSums>(parts.states), parts.of, copies, output<T>(dgamma.tensor), dgamma.add,
             output<T>(dbeta.tensor), dbeta.add);
    }
    if (!dx.wanted()) return;
    const T* gamma_of_sums = norm.gamma;
    if (lines_are_groups) {
      const PartsOfSum each{.sums = norm.lines.value(), .base = 1, .stride = 0, .height = 1, .width = 1, .all = 0};
      parts = line_gradient_sums(norm, copies, each, context, x.device());
      gamma_of_sums = nullptr;
    } else if (layout.groups > 0) {
      const auto [width, all] = std::pair(parts.of.width, parts.of.all);
      parts.of = by_group(layout);
      parts.of.width = width;
      parts.of.all = all;
    }
    const Tensor means = scratch<GradientMeans>(copies * parts.of.sums, x.device());
    launch(operation, context, warp_each_config(copies * parts.of.sums), leave_means<T>,
           input<GradientSums>(parts.states), parts.of, copies, gamma_of_sums, layout.channels,
           output<GradientMeans>(means));
    launch_elements<BackwardElement>(operation, context, norm, copies, input<GradientMeans>(means), dx);
  });
}

}  // namespace jnorm::cuda
