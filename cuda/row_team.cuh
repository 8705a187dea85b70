#pragma once

// The threads that share a row, and how they walk over it in packs.

#include <jnorm/cuda/norm_config.hpp>
#include <jnorm/cuda/pack.cuh>
#include <jnorm/cuda/reduce.cuh>

namespace jnorm::cuda {

// Packs of 16 bytes; float64, which only the Jacobian tools need, is read one by one.
template <class T>
constexpr int kNormPack = sizeof(T) == 8 ? 1 : kPackSize<T>;

// A warp for each row, several rows a block. MaxThreads is what a kernel's registers have to suffice for.
template <int MaxThreads>
struct WarpTeam {
  static constexpr int kMaxThreads = MaxThreads;
  JNORM_DEVICE static int index() { return lane_index(); }
  JNORM_DEVICE static int size() { return kWarpSize; }
  JNORM_DEVICE static int in_block() { return warp_index(); }
  JNORM_DEVICE static int per_block() { return block_size() / kWarpSize; }
  template <class State>
  JNORM_DEVICE static State reduce(const State& state) {
    return warp_reduce(state);
  }
};

// A block for each row, of so many threads at most. Its first kReduceScratchBytes of shared memory serve the
// reductions.
template <int MaxThreads>
struct BlockTeam {
  static constexpr int kMaxThreads = MaxThreads;
  JNORM_DEVICE static int index() { return thread_index(); }
  JNORM_DEVICE static int size() { return block_size(); }
  JNORM_DEVICE static int in_block() { return 0; }
  JNORM_DEVICE static int per_block() { return 1; }
  template <class State>
  JNORM_DEVICE static State reduce(const State& state) {
    static_assert(sizeof(State) * kMaxThreads / kWarpSize <= kReduceScratchBytes);
    return block_reduce(state, dynamic_smem<State>());
  }
};

// The v-th pack that this thread holds of a row of so many. Where the row has no such pack any more, it holds the last
// one again, so that loads need no branch; sums and stores pass over it.
template <class Team>
JNORM_DEVICE int held_pack(int v, int packs) {
  const int pack = Team::index() + v * Team::size();
  return pack < packs ? pack : packs - 1;
}
template <class Team>
JNORM_DEVICE bool holds_pack(int v, int packs) {
  return Team::index() + v * Team::size() < packs;
}

// A row, or what of it this thread holds: V packs, in registers, since v is known wherever a loop over them is
// unrolled.
template <class Team, class T, int N, int V>
JNORM_DEVICE void load_row(Pack<T, N> (&held)[V], const T* row, int packs) {
  JNORM_UNROLL
  for (int v = 0; v < V; ++v) held[v] = load_input_pack<N>(row + held_pack<Team>(v, packs) * N);
}

// The sum of term(element), a state, over a row held in registers.
template <class Team, class State, class T, int N, int V, class Term>
JNORM_DEVICE State reduce_held(const Pack<T, N> (&row)[V], int packs, const Term& term) {
  State state;
  JNORM_UNROLL
  for (int v = 0; v < V; ++v) {
    if (!holds_pack<Team>(v, packs)) continue;
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) state = combine(state, term(widen(row[v][j])));
  }
  return Team::reduce(state);
}

// What a thread of a block holds at a time of a row too long for registers: packs whose loads are under way together.
template <class T, int N>
struct Share {
  static constexpr int kPacks = 4;
  Pack<T, N> packs[kPacks];
  int held;           // how many of these are in the row
  Index first, step;  // the numbers of the first one, and from one to the next

  // Calls f(pack, column).
  template <class F>
  JNORM_DEVICE void for_each(const F& f) const {
    JNORM_UNROLL
    for (int v = 0; v < kPacks; ++v) {
      if (v < held) f(packs[v], (first + v * step) * N);
    }
  }
};

enum class Direction : bool { forwards, backwards };

// Calls f(share) for all that this thread reads of a long row.
template <int N, class T, class F>
JNORM_DEVICE void for_each_share(const T* row, Index packs, Direction direction, const F& f) {
  constexpr int kPacks = Share<T, N>::kPacks;
  const Index step = block_size(), together = kPacks * step;
  const Index shares = (packs + together - 1) / together;
  for (Index i = 0; i < shares; ++i) {
    Share<T, N> share;
    share.held = 0;
    share.first = (direction == Direction::forwards ? i : shares - 1 - i) * together + thread_index();
    share.step = step;
    JNORM_UNROLL
    for (int v = 0; v < kPacks; ++v) {
      const Index pack = share.first + v * step;
      share.packs[v] = load_input_pack<N>(row + (pack < packs ? pack : packs - 1) * N);
      share.held += pack < packs ? 1 : 0;
    }
    f(share);
  }
}

// The pack of a parameter that may be absent, widened.
template <int N, class T>
JNORM_DEVICE Pack<Wide<T>, N> load_wide_or(const T* parameter, Index offset, Wide<T> absent) {
  Pack<Wide<T>, N> wide;
  if (parameter == nullptr) {
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) wide[j] = absent;
  } else {
    const Pack<T, N> pack = load_input_pack<N>(parameter + offset);
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) wide[j] = widen(pack[j]);
  }
  return wide;
}

// Overwrites an element with a value rounded once, or adds the value to it.
template <class T>
JNORM_DEVICE void put(T& element, Wide<T> value, bool add) {
  element = narrow<T>(add ? widen(element) + value : value);
}

// The same for a pack.
template <class T, int N>
JNORM_DEVICE void put_pack(T* address, const Pack<Wide<T>, N>& values, bool add) {
  Pack<T, N> pack;
  if (add) pack = load_pack<N>(static_cast<const T*>(address));
  JNORM_UNROLL
  for (int j = 0; j < N; ++j) pack[j] = narrow<T>(add ? widen(pack[j]) + values[j] : values[j]);
  store_pack(address, pack);
}

}  // namespace jnorm::cuda
