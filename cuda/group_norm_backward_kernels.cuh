#pragma once

// The gradients of GroupNorm where a group fits on chip. The formulas with their tags stand in
// core/kernels/channel_norm.cpp. A team holds dy and x of a group, so that both are read once for all three gradients.
// The sums by channel, for dgamma and dbeta, take two steps: over a part of the outer indices, then over the parts, in
// order. How many parts there are follows from the shape alone.

#include <jnorm/cuda/group_norm_kernels.cuh>

namespace jnorm::cuda {

// dy and dx have K copies of x's elements.
template <class T>
struct GroupGradients {
  T* dx;             // [K, count, length] or null
  bool add;          // to dx
  Wide<T>* partial;  // [K, parts, 2, groups channels] or null: sums of dy x_hat, and of dy
  Index copies;
};

// Of one pack: the sums of u and of u x_hat.
template <int N, class T>
JNORM_DEVICE SumPair<Wide<T>> group_terms(const RowStatistics<true, Wide<T>>& statistics, const Pack<T, N>& x,
                                          const Pack<T, N>& dy, const Pack<Wide<T>, N>& gamma) {
  SumPair<Wide<T>> sums;
  JNORM_UNROLL
  for (int j = 0; j < N; ++j) {
    const Wide<T> u = gamma[j] * widen(dy[j]);
    sums = combine(sums, {u, u * statistics.x_hat(widen(x[j]))});
  }
  return sums;
}
template <class T>
JNORM_DEVICE ChannelGradient<Wide<T>> group_gradient(const GroupNorm<T>& norm,
                                                     const RowStatistics<true, Wide<T>>& statistics,
                                                     const SumPair<double>& sums) {
  return {statistics, static_cast<Wide<T>>(sums.first * norm.share), static_cast<Wide<T>>(sums.second * norm.share)};
}
template <class W>
JNORM_DEVICE SumPair<double> in_float64(const SumPair<W>& sums) {
  return {static_cast<double>(sums.first), static_cast<double>(sums.second)};
}

// dx of one pack.
template <int N, class T>
JNORM_DEVICE void put_dx(T* address, const ChannelGradient<Wide<T>>& gradient, const Pack<T, N>& x,
                         const Pack<T, N>& dy, const Pack<Wide<T>, N>& gamma, bool add) {
  Pack<Wide<T>, N> dx;
  JNORM_UNROLL
  for (int j = 0; j < N; ++j) {
    dx[j] = gradient.dx(gamma[j] * widen(dy[j]), gradient.statistics.x_hat(widen(x[j])));
  }
  put_pack(address, dx, add);
}

// Channels of several elements, side by side: every pack's sums of dy x_hat and dy over its one or two channels, in
// shared memory, which a few lanes for each channel add.
template <class W, int N>
struct PackSums {
  static constexpr int kChannels = N == 1 ? 1 : 2;
  SumPair<W>* sums;  // [packs, kChannels]

  template <class Team>
  JNORM_DEVICE void leave(int channels, int inner, int lanes, bool inside, W* dgamma, W* dbeta) const {
    const int at_once = Team::size() / lanes, lane = Team::index() % lanes;
    for (int from = 0; from < channels; from += at_once) {
      const int channel = from + Team::index() / lanes, begin = channel * inner, end = begin + inner;
      SumPair<W> sum;
      for (int pack = begin / N + lane; channel < channels && pack * N < end; pack += lanes) {
        sum = combine(sum, sums[pack * kChannels + (pack * N < begin ? 1 : 0)]);
      }
      sum = lanes_reduce(sum, lanes);
      if (lane != 0 || channel >= channels || !inside) continue;
      dgamma[channel] = sum.first;  // [GN.3]
      dbeta[channel] = sum.second;
    }
  }
};

// One pack: dx, and the sums over its channels.
template <int N, class T>
JNORM_DEVICE void leave_pack(const Pack<T, N>& x, const Pack<T, N>& dy, const PackChannels<N>& channels,
                             const Pack<Wide<T>, N>& gamma, const ChannelGradient<Wide<T>>& gradient, T* dx, bool add,
                             SumPair<Wide<T>>* sums) {
  if (sums != nullptr) {
    SumPair<Wide<T>> own[PackSums<Wide<T>, N>::kChannels];
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) {
      const Wide<T> cotangent = widen(dy[j]);
      const SumPair<Wide<T>> term{cotangent * gradient.statistics.x_hat(widen(x[j])), cotangent};
      if (channels.in_second(j)) {
        own[N > 1 ? 1 : 0] = combine(own[N > 1 ? 1 : 0], term);
      } else {
        own[0] = combine(own[0], term);
      }
    }
    JNORM_UNROLL
    for (int i = 0; i < PackSums<Wide<T>, N>::kChannels; ++i) sums[i] = own[i];
  }
  if (dx != nullptr) put_dx(dx, gradient, x, dy, gamma, add);
}

// Groups whose channels have several elements each: every outer index is a part. Each channel's sums are added by so
// many lanes. A group in shared memory makes room for the sums of its packs, pack by pack.
template <class Team, class T, int N, int V>
JNORM_KERNEL(Team::kMaxThreads)
group_norm_backward_held(GroupNorm<T> norm, GroupGradients<T> out, int lanes) {
  using W = Wide<T>;
  const Index items = out.copies * norm.count.value();
  const bool inside = Team::row() < items;
  const Index item = inside ? Team::row() : items - 1, group = norm.count.remainder(item);
  const int packs = norm.length / N;
  const auto x = take_group<Team, N, V>(norm.x + group * norm.length, packs, 0);
  const auto dy = take_group<Team, N, V>(norm.dy + item * norm.length, packs, 1);
  const RowStatistics<true, W> statistics = norm.statistics(group);
  SumPair<W> sums;
  x.for_each_pack([&](int v, Index position) {
    const auto gamma = PackChannels<N>(norm, group, position).load_or(norm.gamma, W(1));
    sums = combine(sums, group_terms(statistics, x[v], dy[v], gamma));
  });
  const auto gradient = group_gradient(norm, statistics, Team::reduce(in_float64(sums)));
  constexpr int of_pack = PackSums<W, N>::kChannels;
  static_assert(V > 0 || sizeof(SumPair<W>) * of_pack <= sizeof(Pack<T, N>));
  SumPair<W>* const memory = dynamic_smem<SumPair<W>>() + kReductionBytes / sizeof(SumPair<W>);
  const PackSums<W, N> pack_sums{memory + Team::in_block() * packs * of_pack};
  x.for_each_pack([&](int v, Index position) {
    const PackChannels<N> channels(norm, group, position);
    leave_pack(x[v], dy[v], channels, channels.load_or(norm.gamma, W(1)), gradient,
               out.dx == nullptr || !inside ? nullptr : out.dx + item * norm.length + position, out.add,
               out.partial == nullptr ? nullptr : pack_sums.sums + position / N * of_pack);
  });
  if (out.partial == nullptr) return;
  if constexpr (Team::kRowsShareBlock) {
    warp_barrier();
  } else {
    block_barrier();
  }
  const Index part = norm.groups.quotient(item), all = norm.groups.value() * norm.channels;
  W* const to = out.partial + part * 2 * all + norm.groups.remainder(item) * norm.channels;
  pack_sums.template leave<Team>(norm.channels, static_cast<int>(norm.inner.value()), lanes, inside, to, to + all);
}

// Adds up what teams of a block hold that take different rows of the same groups; the first of them gets the sum.
template <class Team, class W, int N>
JNORM_DEVICE void add_teams(Pack<W, N>& sum, int across) {
  if (Team::per_block() == across) return;
  W* const scratch = dynamic_smem<W>() + kReductionBytes / sizeof(W);  // [N, threads]
  block_barrier();
  JNORM_UNROLL
  for (int j = 0; j < N; ++j) scratch[j * block_size() + thread_index()] = sum[j];
  block_barrier();
  const int step = across * Team::size();
  if (thread_index() >= step) return;
  JNORM_UNROLL
  for (int j = 0; j < N; ++j) {
    for (int i = thread_index() + step; i < block_size(); i += step) sum[j] += scratch[j * block_size() + i];
  }
}

// Channels of one element each: a group is a piece of a row of [outer, channels], and a thread has the same columns in
// every row. It adds to their sums in registers, and loads the next row where it has used this one.
template <class Team, class T, int N, int V>
JNORM_KERNEL(Team::kMaxThreads)
group_norm_backward_rows(GroupNorm<T> norm, GroupGradients<T> out, GroupWalk walk) {
  using W = Wide<T>;
  const Index block = block_x() / walk.tiles, copy = block / walk.parts, part = block % walk.parts;
  const Index wanted = block_x() % walk.tiles * walk.across + Team::in_block() % walk.across;
  const bool inside = wanted < norm.groups.value();
  const Index g = inside ? wanted : norm.groups.value() - 1;
  const int slot = Team::in_block() / walk.across, slots = Team::per_block() / walk.across;
  const int packs = norm.length / N;
  const T* const dy_of_copy = norm.dy + copy * norm.count.value() * norm.length;
  const auto group_of = [&](Index row) { return (row < walk.outer ? row : walk.outer - 1) * norm.groups.value() + g; };
  HeldRow<Team, T, N, V> x(packs), dy(packs);
  Pack<W, N> dgamma[V] = {}, dbeta[V] = {};
  Index group = group_of(part * slots + slot);
  x.load(norm.x + group * norm.length);
  dy.load(dy_of_copy + group * norm.length);
  for (Index base = part * slots; base < walk.outer; base += walk.parts * slots) {
    const RowStatistics<true, W> statistics = norm.statistics(group);
    SumPair<W> sums;
    x.for_each_pack([&](int v, Index position) {
      const auto gamma = load_wide_or<N>(norm.gamma, g * norm.length + position, W(1));
      sums = combine(sums, group_terms(statistics, x[v], dy[v], gamma));
    });
    const auto gradient = group_gradient(norm, statistics, Team::reduce(in_float64(sums)));
    const bool counted = inside && base + slot < walk.outer;
    const Index next = group_of(base + slot + walk.parts * slots);
    JNORM_UNROLL
    for (int v = 0; v < V; ++v) {
      const Index position = x.column(v);
      if (x.holds(v) && counted) {
        const auto gamma = load_wide_or<N>(norm.gamma, g * norm.length + position, W(1));
        JNORM_UNROLL
        for (int j = 0; j < N; ++j) {
          dgamma[v][j] += widen(dy[v][j]) * statistics.x_hat(widen(x[v][j]));
          dbeta[v][j] += widen(dy[v][j]);
        }
        if (out.dx != nullptr) {
          T* const to = out.dx + (copy * norm.count.value() + group) * norm.length + position;
          put_dx(to, gradient, x[v], dy[v], gamma, out.add);
        }
      }
      x.load(norm.x + next * norm.length, v);
      dy.load(dy_of_copy + next * norm.length, v);
    }
    group = next;
  }
  if (out.partial == nullptr) return;
  const Index all = norm.groups.value() * norm.channels;
  W* const to = out.partial + block * 2 * all + g * norm.length;
  JNORM_UNROLL
  for (int v = 0; v < V; ++v) {
    add_teams<Team>(dgamma[v], walk.across);
    add_teams<Team>(dbeta[v], walk.across);
    if (slot != 0 || !inside || !x.holds(v)) continue;
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) {
      to[x.column(v) + j] = dgamma[v][j];  // [GN.3]
      to[all + x.column(v) + j] = dbeta[v][j];
    }
  }
}

}  // namespace jnorm::cuda
