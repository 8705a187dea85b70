#pragma once

// GroupNorm of groups that fit on chip. The formulas with their tags stand in core/kernels/channel_norm.cpp.
//
// A group is a piece of memory, its channels one after the other, and is taken as a row is: a team holds it in
// registers or in shared memory, so that x, and dy, are read once. What differs from LayerNorm is that gamma and beta
// go by channel, which is the position in the group divided by `inner`.

#include <jnorm/cuda/channel_statistics.cuh>
#include <jnorm/cuda/divide.cuh>
#include <jnorm/cuda/group_norm_config.hpp>
#include <jnorm/cuda/row.cuh>

namespace jnorm::cuda {

// Some lanes of a warp for each group, a power of two, in blocks of so many threads at most.
template <int MaxThreads, int Lanes>
struct LaneTeam {
  static constexpr bool kRowsShareBlock = true;
  static constexpr int kMaxThreads = MaxThreads;
  JNORM_DEVICE static int index() { return thread_index() % Lanes; }
  JNORM_DEVICE static int size() { return Lanes; }
  JNORM_DEVICE static int in_block() { return thread_index() / Lanes; }
  JNORM_DEVICE static int per_block() { return block_size() / Lanes; }
  JNORM_DEVICE static Index row() { return block_x() * per_block() + in_block(); }
  template <class State>
  JNORM_DEVICE static State reduce(const State& state) {
    return lanes_reduce(state, Lanes);
  }
};

// A group in a block's shared memory, beside others; used as a HeldRow is. No thread sees another one's packs.
template <class Team, class T, int N>
struct StagedRow {
  Pack<T, N>* held;
  int packs;

  JNORM_DEVICE StagedRow(const T* row, int row_packs, int place)
      : held(dynamic_smem<Pack<T, N>>() + kReductionBytes / sizeof(Pack<T, N>) + place * row_packs), packs(row_packs) {
    constexpr int together = 8;  // loads under way
    for (int from = Team::index(); from < packs; from += together * Team::size()) {
      Pack<T, N> loaded[together];
      JNORM_UNROLL
      for (int i = 0; i < together; ++i) {
        const int pack = from + i * Team::size();
        loaded[i] = load_input_pack<N>(row + (pack < packs ? pack : from) * N);
      }
      JNORM_UNROLL
      for (int i = 0; i < together; ++i) {
        const int pack = from + i * Team::size();
        if (pack < packs) store_pack(&held[pack].values[0], loaded[i]);
      }
    }
  }
  JNORM_DEVICE Pack<T, N> operator[](int pack) const { return load_pack<N>(&held[pack].values[0]); }

  template <class F>
  JNORM_DEVICE void for_each_pack(const F& f) const {
    for (int pack = Team::index(); pack < packs; pack += Team::size()) f(pack, Index{pack} * N);
  }
};

// A group in registers, or if V is 0, in shared memory: at place 0 x, at 1 dy.
template <class Team, int N, int V, class T>
JNORM_DEVICE auto take_group(const T* group, int packs, int place = 0) {
  if constexpr (V > 0) {
    return HeldRow<Team, T, N, V>(group, packs);
  } else {
    return StagedRow<Team, T, N>(group, packs, place);
  }
}

// The sum of term(element), a state, over a group.
template <class Team, class T, int N, class State, class Row, class Term>
JNORM_DEVICE State reduce_group(const Row& row, const Term& term) {
  State state;
  row.for_each_pack([&](int v, Index /*position*/) {
    const Pack<T, N> pack = row[v];
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) state = combine(state, term(widen(pack[j])));
  });
  return Team::reduce(state);
}

// On the host: f<Team, V>() for a plan made of these choices, whose groups fit.
template <GroupChoices kChoices, class F>
void with_group_team(const GroupPlan& plan, const F& f) {
  constexpr int threads = kChoices.lane_threads;
  using Block = BlockTeam<kChoices.block_threads>;
  if constexpr (kChoices.shared_pack_bytes > 0) {
    if (plan.held_packs == 0) return f.template operator()<Block, 0>();
  }
  if (plan.lanes == 0) return f.template operator()<Block, kChoices.block>();
  if (plan.lanes == kFewLanes[0]) return f.template operator()<LaneTeam<threads, kFewLanes[0]>, 1>();
  if (plan.lanes == kFewLanes[1]) return f.template operator()<LaneTeam<threads, kFewLanes[1]>, 1>();
  if (plan.lanes == kFewLanes[2]) return f.template operator()<LaneTeam<threads, kFewLanes[2]>, 1>();
  if constexpr (kChoices.warp[1] > 0) {
    if (plan.held_packs == kChoices.warp[1]) return f.template operator()<WarpTeam<threads>, kChoices.warp[1]>();
  }
  f.template operator()<WarpTeam<threads>, kChoices.warp[0]>();
}

// x [count, length], whose rows are the groups of all outer indices. `inner` is 1, or not below the size of packs.
template <class T>
struct GroupNorm {
  Divisor count, groups, inner;  // groups: of an outer index
  int length, channels;          // of a group
  double share;                  // of an element in the group's mean: 1/length
  const T *x = nullptr, *dy = nullptr, *gamma = nullptr, *beta = nullptr;
  const double *mean = nullptr, *rstd = nullptr;

  JNORM_DEVICE RowStatistics<true, Wide<T>> statistics(Index group) const {
    return rounded<Wide<T>>(load_read_only(mean + group), load_read_only(rstd + group));
  }
};

// The channels of a pack: one for each element where inner is 1, or else one, or two from element `second` on.
template <int N>
struct PackChannels {
  Index first;  // of all channels of an outer index
  int second;
  bool side_by_side;

  template <class T>
  JNORM_DEVICE PackChannels(const GroupNorm<T>& norm, Index group, Index position) {
    const Index in_group = norm.inner.quotient(position);
    first = norm.groups.remainder(group) * norm.channels + in_group;
    second = static_cast<int>((in_group + 1) * norm.inner.value() - position);
    side_by_side = norm.inner.value() == 1;
  }
  JNORM_DEVICE bool in_second(int j) const { return N > 1 && j >= second; }

  // A parameter by channel, widened; it may be null.
  template <class T>
  JNORM_DEVICE Pack<Wide<T>, N> load_or(const T* parameter, Wide<T> absent) const {
    if (side_by_side || parameter == nullptr) return load_wide_or<N>(parameter, first, absent);
    const Wide<T> one = widen(load_read_only(parameter + first));
    const Wide<T> other = in_second(N - 1) ? widen(load_read_only(parameter + first + 1)) : one;
    Pack<Wide<T>, N> wide;
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) wide[j] = in_second(j) ? other : one;
    return wide;
  }
};

// The mean first, to float32's precision, then the deviations from that in float64: they keep all of x. Halves, since
// the difference of two elements may be too large.
template <class Team, int N, class T, class Row>
JNORM_DEVICE Moments<double> group_moments(const Row& x, Wide<T> first, const GroupNorm<T>& norm) {
  using W = Wide<T>;
  const W half = first * W(0.5), share = static_cast<W>(norm.share);
  const W rest = reduce_group<Team, T, N, Sum<W>>(x, [=](W e) { return Sum<W>{(e * W(0.5) - half) * share}; }).value;
  const double pivot = static_cast<double>(half + rest) * 2;
  const auto deviations = reduce_group<Team, T, N, SumPair<double>>(x, [=](W e) {
    const double deviation = static_cast<double>(e) - pivot;
    return SumPair<double>{deviation, deviation * deviation};
  });
  const double correction = deviations.first * norm.share;
  return {static_cast<double>(norm.length), pivot + correction, deviations.second - deviations.first * correction};
}

template <class Team, class T, int N, int V>
JNORM_KERNEL(Team::kMaxThreads)
group_norm_held(GroupNorm<T> norm, double eps, T* y, SavedStatistics saved) {
  using W = Wide<T>;
  const bool inside = Team::row() < norm.count.value();
  const Index group = inside ? Team::row() : norm.count.value() - 1;
  const T* const first = norm.x + group * norm.length;
  const auto x = take_group<Team, N, V>(first, norm.length / N);
  const auto moments = group_moments<Team, N>(x, widen(load_read_only(first)), norm);
  const ChannelStatistics exact = channel_statistics(moments, eps);
  if (!inside) return;
  const RowStatistics<true, W> statistics = rounded<W>(exact.mean, exact.rstd);
  x.for_each_pack([&](int v, Index position) {
    const PackChannels<N> channels(norm, group, position);
    const auto gamma = channels.load_or(norm.gamma, W(1)), beta = channels.load_or(norm.beta, W(0));
    Pack<T, N> pack = x[v];
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) pack[j] = narrow<T>(gamma[j] * statistics.x_hat(widen(pack[j])) + beta[j]);
    store_output_pack(y + group * norm.length + position, pack);
  });
  if (Team::index() == 0) saved.leave(group, exact);
}

}  // namespace jnorm::cuda
