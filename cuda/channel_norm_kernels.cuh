#pragma once

// BatchNorm and GroupNorm over [outer, channels, inner]. The formulas with their tags stand in
// core/kernels/channel_norm.cpp.
//
// Sums are in float64 and in two steps: of parts of the elements, then of these. BatchNorm of [outer, channels] walks
// down the columns; all else walks along lines, the elements side by side that share a channel, or a group where inner
// is 1. Statistics take one pass: sums about the first element of each part, which float64 keeps exact for all of
// float32. A float64 variance that float64 doesn't hold (|x| of 1e154) makes its statistic NaN.

#include <jnorm/core/kernels.hpp>
#include <jnorm/cuda/channel_norm_config.hpp>
#include <jnorm/cuda/channel_statistics.cuh>
#include <jnorm/cuda/divide.cuh>

namespace jnorm::cuda {

// What the kernels read. A line holds the elements of one channel, or of a group where inner is 1.
template <class T>
struct ChannelNorm {
  ChannelLayout layout;
  Index statistic_count;
  Divisor group_channels, lines, lines_of_outer, line_length;
  const T *x = nullptr, *dy = nullptr, *gamma = nullptr, *beta = nullptr;
  const std::int32_t* mask = nullptr;  // [outer, inner]
  const double *mean = nullptr, *rstd = nullptr;

  JNORM_DEVICE bool counted(Index position) const { return mask == nullptr || load_read_only(mask + position) != 0; }
  JNORM_DEVICE Index statistic(Index o, Index channel) const {
    return layout.groups > 0 ? o * layout.groups + group_channels.quotient(channel) : channel;
  }
  JNORM_DEVICE RowStatistics<true, Wide<T>> statistics(Index s) const {
    return rounded<Wide<T>>(load_read_only(mean + s), load_read_only(rstd + s));
  }
  JNORM_DEVICE Wide<T> gamma_of(Index channel) const {
    return gamma == nullptr ? Wide<T>(1) : widen(load_read_only(gamma + channel));
  }
  JNORM_DEVICE Wide<T> beta_of(Index channel) const {
    return beta == nullptr ? Wide<T>(0) : widen(load_read_only(beta + channel));
  }
};

// Where the elements of a line are from its i-th on.
template <class T>
struct LinePlace {
  Index o, channel, channel_step, statistic, position;
  JNORM_DEVICE LinePlace(const ChannelNorm<T>& norm, Index line, Index i) {
    const bool group = norm.layout.inner == 1;
    o = norm.lines_of_outer.quotient(line);
    const Index in_outer = line - o * norm.lines_of_outer.value();
    channel = group ? in_outer * norm.line_length.value() + i : in_outer;
    channel_step = group ? 1 : 0;
    statistic = norm.statistic(o, channel);
    position = o * norm.layout.inner + (group ? 0 : i);
  }
};

// Sums about a pivot, the first element that is counted.
struct PivotSums {
  double pivot = 0, sum = 0, squares = 0;
  Index count = 0;

  JNORM_DEVICE void add(double element) {
    if (count == 0) pivot = element;
    const double deviation = element - pivot;
    sum += deviation;
    squares += deviation * deviation;
    ++count;
  }
  JNORM_DEVICE Moments<double> moments() const {
    if (count == 0) return {};
    const auto number = static_cast<double>(count);
    const double mean = sum / number;
    return {number, pivot + mean, squares - mean * sum};
  }
};

// Over the elements of a channel or a statistic: of dy or of u = gamma dy, of that times x_hat, and how many count.
struct GradientSums {
  double plain = 0, times_x_hat = 0, count = 0;
};
JNORM_DEVICE GradientSums combine(const GradientSums& a, const GradientSums& b) {
  return {a.plain + b.plain, a.times_x_hat + b.times_x_hat, a.count + b.count};
}
JNORM_DEVICE GradientSums shuffle_xor(const GradientSums& s, int lanes) {
  return {shuffle_xor(s.plain, lanes), shuffle_xor(s.times_x_hat, lanes), shuffle_xor(s.count, lanes)};
}
JNORM_DEVICE GradientSums shuffle(const GradientSums& s, int source_lane) {
  return {shuffle(s.plain, source_lane), shuffle(s.times_x_hat, source_lane), shuffle(s.count, source_lane)};
}

// Where a thread stands that walks down columns.
template <int N>
struct ColumnPlace {
  Index copy, part, column, row, row_step;
  JNORM_DEVICE explicit ColumnPlace(const ColumnWalk& walk) {
    const Index at_once = kColumnWalkThreads / walk.lanes, block = block_x() / walk.tiles;
    copy = block / walk.parts;
    part = block % walk.parts;
    column = (block_x() % walk.tiles * walk.lanes + thread_index() % walk.lanes) * N;
    row = part * at_once + thread_index() / walk.lanes;
    row_step = walk.parts * at_once;
  }
};

// Merges what the rows of a block have found for each column, and leaves it in [copies, parts, channels].
template <int N, class State>
JNORM_DEVICE void leave_columns(const State (&states)[N], const ColumnPlace<N>& at, const ColumnWalk& walk,
                                Index channels, State* parts) {
  State* const scratch = dynamic_smem<State>();
  JNORM_UNROLL
  for (int j = 0; j < N; ++j) {
    block_barrier();
    scratch[thread_index()] = states[j];
    block_barrier();
    if (thread_index() >= walk.lanes || at.column >= channels) continue;
    State total = scratch[thread_index()];
    for (int i = thread_index() + walk.lanes; i < kColumnWalkThreads; i += walk.lanes) {
      total = combine(total, scratch[i]);
    }
    parts[(at.copy * walk.parts + at.part) * channels + at.column + j] = total;
  }
}

// The rows that a thread reads at once, so that their loads are under way together; and the packs of a line.
constexpr int kTogether = 4;

template <class T, int N>
JNORM_KERNEL(kColumnWalkThreads)
column_moments(ChannelNorm<T> norm, ColumnWalk walk, Moments<double>* parts) {
  const ColumnPlace<N> at(walk);
  const auto [outer, channels, inner, groups] = norm.layout;
  PivotSums sums[N];
  for (Index first = at.row; at.column < channels && first < outer; first += kTogether * at.row_step) {
    Pack<T, N> x[kTogether];
    JNORM_UNROLL
    for (int v = 0; v < kTogether; ++v) {
      const Index o = first + v * at.row_step;
      x[v] = load_input_pack<N>(norm.x + (o < outer ? o : first) * channels + at.column);
    }
    JNORM_UNROLL
    for (int v = 0; v < kTogether; ++v) {
      const Index o = first + v * at.row_step;
      if (o >= outer || !norm.counted(o)) continue;
      JNORM_UNROLL
      for (int j = 0; j < N; ++j) sums[j].add(static_cast<double>(widen(x[v][j])));
    }
  }
  Moments<double> moments[N];
  JNORM_UNROLL
  for (int j = 0; j < N; ++j) moments[j] = sums[j].moments();
  leave_columns(moments, at, walk, channels, parts);
}

// Where a warp stands that walks along lines.
struct Segment {
  Index line, from, to;  // of the line's elements
  JNORM_DEVICE Segment(const LineWalk& walk, Index item)
      : line(item / walk.segments % walk.lines), from(item % walk.segments * walk.segment) {
    to = from + walk.segment < walk.length ? from + walk.segment : walk.length;
  }
};
JNORM_DEVICE Index warp_of_grid() { return block_x() * (kLineThreads / kWarpSize) + warp_index(); }

// Lines of GroupNorm's statistics are whole groups.
template <class T, int N>
JNORM_KERNEL(kLineThreads)
line_moments(ChannelNorm<T> norm, LineWalk walk, Moments<double>* parts) {
  const Index item = warp_of_grid();
  if (item >= walk.lines * walk.segments) return;
  const Segment at(walk, item);
  const T* const line = norm.x + at.line * walk.length;
  const Index first_position = norm.layout.groups > 0 ? 0 : at.line / norm.layout.channels * norm.layout.inner;
  PivotSums sums;
  for (Index first = at.from + lane_index() * N; first < at.to; first += kTogether * kWarpSize * N) {
    Pack<T, N> x[kTogether];
    JNORM_UNROLL
    for (int v = 0; v < kTogether; ++v) {
      const Index i = first + v * kWarpSize * N;
      x[v] = load_input_pack<N>(line + (i < at.to ? i : first));
    }
    JNORM_UNROLL
    for (int v = 0; v < kTogether; ++v) {
      const Index i = first + v * kWarpSize * N;
      if (i >= at.to) continue;
      JNORM_UNROLL
      for (int j = 0; j < N; ++j) {
        if (norm.counted(first_position + i + j)) sums.add(static_cast<double>(widen(x[v][j])));
      }
    }
  }
  const Moments<double> moments = warp_reduce(sums.moments());
  if (lane_index() == 0) parts[item] = moments;
}

template <class T, int N>
JNORM_KERNEL(kColumnWalkThreads)
column_sums(ChannelNorm<T> norm, ColumnWalk walk, GradientSums* parts) {
  using W = Wide<T>;
  const ColumnPlace<N> at(walk);
  const auto [outer, channels, inner, groups] = norm.layout;
  GradientSums sums[N];
  double count = 0;  // the same in every column: one register does
  RowStatistics<true, W> statistics[N];
  for (Index first = at.row; at.column < channels && first < outer; first += kTogether * at.row_step) {
    Pack<T, N> x[kTogether], dy[kTogether];
    JNORM_UNROLL
    for (int v = 0; v < kTogether; ++v) {
      const Index o = first + v * at.row_step, row = o < outer ? o : first;
      x[v] = load_input_pack<N>(norm.x + row * channels + at.column);
      dy[v] = load_input_pack<N>(norm.dy + (at.copy * outer + row) * channels + at.column);
    }
    JNORM_UNROLL
    for (int v = 0; v < kTogether; ++v) {
      const Index o = first + v * at.row_step;
      if (o >= outer || !norm.counted(o)) continue;
      if (count == 0 || groups > 0) {  // BatchNorm's are the same in all rows
        JNORM_UNROLL
        for (int j = 0; j < N; ++j) statistics[j] = norm.statistics(norm.statistic(o, at.column + j));
      }
      count += 1;
      JNORM_UNROLL
      for (int j = 0; j < N; ++j) {
        const W cotangent = widen(dy[v][j]);
        sums[j].plain += cotangent;
        sums[j].times_x_hat += cotangent * statistics[j].x_hat(widen(x[v][j]));
      }
    }
  }
  JNORM_UNROLL
  for (int j = 0; j < N; ++j) sums[j].count = count;
  leave_columns(sums, at, walk, channels, parts);
}

// Of u = gamma dy where gamma differs along a line, else of dy.
template <class T, int N>
JNORM_KERNEL(kLineThreads)
line_sums(ChannelNorm<T> norm, LineWalk walk, Index copies, GradientSums* parts) {
  using W = Wide<T>;
  const Index item = warp_of_grid(), copy = item / (walk.lines * walk.segments);
  if (copy >= copies) return;
  const Segment at(walk, item);
  const T* const x_line = norm.x + at.line * walk.length;
  const T* const dy_line = norm.dy + (copy * walk.lines + at.line) * walk.length;
  const LinePlace<T> start(norm, at.line, 0);
  const auto statistics = norm.statistics(start.statistic);
  GradientSums sums;
  Index count = 0;
  for (Index first = at.from + lane_index() * N; first < at.to; first += kTogether * kWarpSize * N) {
    Pack<T, N> x[kTogether], dy[kTogether];
    JNORM_UNROLL
    for (int v = 0; v < kTogether; ++v) {
      const Index i = first + v * kWarpSize * N, inside = i < at.to ? i : first;
      x[v] = load_input_pack<N>(x_line + inside);
      dy[v] = load_input_pack<N>(dy_line + inside);
    }
    JNORM_UNROLL
    for (int v = 0; v < kTogether; ++v) {
      const Index i = first + v * kWarpSize * N;
      if (i >= at.to) continue;
      SumPair<W> pack;
      JNORM_UNROLL
      for (int j = 0; j < N; ++j) {
        if (!norm.counted(start.position + i + j)) continue;
        const W gamma = start.channel_step != 0 ? norm.gamma_of(start.channel + i + j) : W(1);
        const W u = gamma * widen(dy[v][j]);
        pack = combine(pack, {u, u * statistics.x_hat(widen(x[v][j]))});
        ++count;
      }
      sums.plain += pack.first;
      sums.times_x_hat += pack.second;
    }
  }
  sums.count = static_cast<double>(count);
  sums = warp_reduce(sums);
  if (lane_index() == 0) parts[item] = sums;
}

// Which parts belong to sum k of a copy: (k base + i stride) width + j of the copy's `all`, for i < height, j < width.
struct PartsOfSum {
  Index sums, base, stride, height, width, all;

  // term(part, i) is what counts of a part.
  template <class State, class Term>
  JNORM_DEVICE State total(const State* parts, Index copy, Index k, const Term& term) const {
    State state;
    for (Index place = lane_index(); place < height * width; place += kWarpSize) {
      const Index i = k * base + place / width * stride;
      state = combine(state, term(parts[copy * all + i * width + place % width], i));
    }
    return warp_reduce(state);
  }
};

// A warp for each statistic.
template <class State>
JNORM_KERNEL(kLineThreads)
leave_statistics(const State* parts, PartsOfSum of, double eps, SavedStatistics saved) {
  const Index k = warp_of_grid();
  if (k >= of.sums) return;
  const State moments = of.total(parts, 0, k, [](const State& part, Index) { return part; });
  if (lane_index() == 0) saved.leave(k, channel_statistics(moments, eps));
}

// A warp for each statistic of each copy: mean(u) and mean(u x_hat). Sums of dy become those of u with gamma, unless
// that is in them.
struct GradientMeans {
  double u, u_x_hat;
};
template <class T>
JNORM_KERNEL(kLineThreads)
leave_means(const GradientSums* parts, PartsOfSum of, Index copies, const T* gamma, Index channels,
            GradientMeans* means) {
  const Index item = warp_of_grid();
  if (item >= copies * of.sums) return;
  const GradientSums sums = of.total(parts, item / of.sums, item % of.sums, [&](const GradientSums& part, Index i) {
    const double scale = gamma == nullptr ? 1.0 : static_cast<double>(widen(load_read_only(gamma + i % channels)));
    return GradientSums{scale * part.plain, scale * part.times_x_hat, part.count};
  });
  if (lane_index() != 0) return;
  const double share = sums.count == 0 ? 0 : 1 / sums.count;
  means[item] = {sums.plain * share, sums.times_x_hat * share};
}

// A warp for each channel of each copy. [BN.3] [GN.3]
template <class T>
JNORM_KERNEL(kLineThreads)
leave_parameters(const GradientSums* parts, PartsOfSum of, Index copies, T* dgamma, bool add_dgamma, T* dbeta,
                 bool add_dbeta) {
  const Index item = warp_of_grid();
  if (item >= copies * of.sums) return;
  const GradientSums sums =
      of.total(parts, item / of.sums, item % of.sums, [](const GradientSums& part, Index) { return part; });
  if (lane_index() != 0) return;
  if (dgamma != nullptr) put(dgamma[item], static_cast<Wide<T>>(sums.times_x_hat), add_dgamma);
  if (dbeta != nullptr) put(dbeta[item], static_cast<Wide<T>>(sums.plain), add_dbeta);
}

// What becomes of an element: y, or dx. Both are 0 where it isn't counted.
template <class T>
struct ForwardElement {
  RowStatistics<true, Wide<T>> statistics;
  Wide<T> gamma, beta;
  ForwardElement() = default;
  JNORM_DEVICE ForwardElement(const ChannelNorm<T>& norm, const GradientMeans* /*means*/, Index /*copy*/, Index s,
                              Index channel)
      : statistics(norm.statistics(s)), gamma(norm.gamma_of(channel)), beta(norm.beta_of(channel)) {}
  JNORM_DEVICE Wide<T> operator()(Wide<T> x, Wide<T> /*dy*/) const {  // [BN.1] [GN.1]
    return gamma * statistics.x_hat(x) + beta;
  }
};
template <class T>
struct BackwardElement {
  ChannelGradient<Wide<T>> gradient;
  Wide<T> gamma;
  BackwardElement() = default;
  JNORM_DEVICE BackwardElement(const ChannelNorm<T>& norm, const GradientMeans* means, Index copy, Index s,
                               Index channel)
      : gamma(norm.gamma_of(channel)) {
    const GradientMeans* const own = means + copy * norm.statistic_count + s;
    gradient = {norm.statistics(s), static_cast<Wide<T>>(load_read_only(&own->u)),
                static_cast<Wide<T>>(load_read_only(&own->u_x_hat))};
  }
  JNORM_DEVICE Wide<T> operator()(Wide<T> x, Wide<T> dy) const {  // [BN.2] [GN.2]
    return gradient.dx(gamma * dy, gradient.statistics.x_hat(x));
  }
};

// BatchNorm of [outer, channels]: a thread keeps what belongs to its columns.
template <template <class> class Element, class T, int N>
JNORM_KERNEL(kColumnWalkThreads)
column_elements(ChannelNorm<T> norm, ColumnWalk walk, const GradientMeans* means, T* result, bool add) {
  const ColumnPlace<N> at(walk);
  const auto [outer, channels, inner, groups] = norm.layout;
  if (at.column >= channels) return;
  Element<T> elements[N];
  JNORM_UNROLL
  for (int j = 0; j < N; ++j) elements[j] = Element<T>(norm, means, at.copy, at.column + j, at.column + j);
  for (Index first = at.row; first < outer; first += kTogether * at.row_step) {
    Pack<T, N> x[kTogether], dy[kTogether];
    JNORM_UNROLL
    for (int v = 0; v < kTogether; ++v) {
      const Index o = first + v * at.row_step, row = o < outer ? o : first;
      x[v] = load_input_pack<N>(norm.x + row * channels + at.column);
      dy[v] = x[v];
      if (norm.dy != nullptr) dy[v] = load_input_pack<N>(norm.dy + (at.copy * outer + row) * channels + at.column);
    }
    JNORM_UNROLL
    for (int v = 0; v < kTogether; ++v) {
      const Index o = first + v * at.row_step;
      if (o >= outer) continue;
      const bool counted = norm.counted(o);
      Pack<Wide<T>, N> values;
      JNORM_UNROLL
      for (int j = 0; j < N; ++j) values[j] = counted ? elements[j](widen(x[v][j]), widen(dy[v][j])) : Wide<T>(0);
      put_pack(result + (at.copy * outer + o) * channels + at.column, values, add);
    }
  }
}

// All other layouts: a thread finds for each pack where it lies.
template <template <class> class Element, class T, int N>
JNORM_KERNEL(kElementwiseThreads)
line_elements(ChannelNorm<T> norm, Index packs, const GradientMeans* means, T* result, bool add) {
  const Index length = norm.line_length.value();
  for (Index pack = block_x() * block_size() + thread_index(); pack < packs; pack += grid_x() * block_size()) {
    const Index row = norm.line_length.quotient(pack * N), i = pack * N - row * length;
    const Index copy = norm.lines.quotient(row), line = row - copy * norm.lines.value();
    const LinePlace<T> at(norm, line, i);
    const Pack<T, N> x = load_input_pack<N>(norm.x + line * length + i);
    const Pack<T, N> dy = norm.dy == nullptr ? Pack<T, N>{} : load_input_pack<N>(norm.dy + pack * N);
    Element<T> element(norm, means, copy, at.statistic, at.channel);
    Pack<Wide<T>, N> values;
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) {
      if (j > 0 && at.channel_step != 0) {
        element = Element<T>(norm, means, copy, at.statistic, at.channel + j);
      }
      const bool counted = norm.counted(at.position + (at.channel_step != 0 ? 0 : j));
      values[j] = counted ? element(widen(x[j]), widen(dy[j])) : Wide<T>(0);
    }
    put_pack(result + pack * N, values, add);
  }
}

}  // namespace jnorm::cuda
