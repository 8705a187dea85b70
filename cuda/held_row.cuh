#pragma once

// Rows in registers: the threads that share a row, and what each of them holds of it.

#include <jnorm/cuda/config.hpp>
#include <jnorm/cuda/pack.cuh>
#include <jnorm/cuda/reduce.cuh>

namespace jnorm::cuda {

// exp as exact as an element of type T shows it.
template <class T>
JNORM_DEVICE Wide<T> exp_for(Wide<T> x) {
  if constexpr (sizeof(T) == 2) {
    return fast_exp(x);
  } else {
    return exp(x);
  }
}

// The threads that share a row: a warp, beside other warps with rows of their own, or a whole block.
struct RowTeam {
  int threads, index;
  JNORM_DEVICE explicit RowTeam(int team_threads)
      : threads(team_threads), index(is_warp() ? lane_index() : thread_index()) {}
  JNORM_DEVICE bool is_warp() const { return threads == kWarpSize; }
  JNORM_DEVICE int in_block() const { return is_warp() ? warp_index() : 0; }
  JNORM_DEVICE Index row() const {
    return is_warp() ? block_x() * (block_size() / kWarpSize) + warp_index() : block_x();
  }
  JNORM_DEVICE bool leads() const { return index == 0; }
  // The team's own place for a row in shared memory, beside that of the reductions.
  template <class T>
  JNORM_DEVICE T* kept(Index length) const {
    return dynamic_smem<T>() + kReductionBytes / sizeof(T) + in_block() * length;
  }
  // Every thread gets the result. Uses the beginning of the shared memory, if the team is a block.
  template <class State>
  JNORM_DEVICE State reduce(const State& state) const {
    return is_warp() ? warp_reduce(state) : block_reduce(state, dynamic_smem<State>());
  }
};

// kPacks packs of a row in each thread of a team: those from `first` on, `threads` apart. Beyond the row's end they
// hold a filler.
template <class T, int N, int kPacks>
struct HeldRow {
  Pack<T, N> packs[kPacks];
  unsigned first, step, end;  // in elements

  JNORM_DEVICE HeldRow(const RowTeam& team, const T* row, Index begin, Index row_end, T filler)
      : first(static_cast<unsigned>(begin) + static_cast<unsigned>(team.index * N)),
        step(static_cast<unsigned>(team.threads * N)),
        end(static_cast<unsigned>(row_end)) {
    JNORM_UNROLL
    for (int p = 0; p < kPacks; ++p) {
      if (inside(p)) {
        packs[p] = load_pack<N>(row + offset(p));
      } else {
        JNORM_UNROLL
        for (int j = 0; j < N; ++j) packs[p][j] = filler;
      }
    }
  }
  JNORM_DEVICE unsigned offset(int p) const { return first + static_cast<unsigned>(p) * step; }
  JNORM_DEVICE bool inside(int p) const { return offset(p) < end; }

  // f(element), the fillers included.
  template <class F>
  JNORM_DEVICE void each(F&& f) const {
    JNORM_UNROLL
    for (int p = 0; p < kPacks; ++p) {
      JNORM_UNROLL
      for (int j = 0; j < N; ++j) f(packs[p][j]);
    }
  }
  JNORM_DEVICE void keep(T* row) const {
    JNORM_UNROLL
    for (int p = 0; p < kPacks; ++p) {
      if (inside(p)) store_pack<N>(row + offset(p), packs[p]);
    }
  }
  // result = f(index in the row, element), or is added to.
  template <class F>
  JNORM_DEVICE void put(T* result, bool add, const F& f) const {
    JNORM_UNROLL
    for (int p = 0; p < kPacks; ++p) {
      if (!inside(p)) continue;
      Pack<T, N> values{};
      if (add) values = load_pack<N>(result + offset(p));
      JNORM_UNROLL
      for (int j = 0; j < N; ++j) {
        const Wide<T> value = f(Index{offset(p)} + j, packs[p][j]);
        values[j] = narrow<T>(add ? widen(values[j]) + value : value);
      }
      store_output_pack<N>(result + offset(p), values);
    }
  }
};

// result = f(a, b), or is added to, for a row b that lies somewhere.
template <class T, int N, int kPacks, class F>
JNORM_DEVICE void put_pairs(const HeldRow<T, N, kPacks>& a, const T* b, const F& f, T* result, bool add) {
  JNORM_UNROLL
  for (int p = 0; p < kPacks; ++p) {
    if (!a.inside(p)) continue;
    const Pack<T, N> beside = load_pack<N>(b + a.offset(p));
    Pack<T, N> values{};
    if (add) values = load_pack<N>(result + a.offset(p));
    JNORM_UNROLL
    for (int j = 0; j < N; ++j) {
      const Wide<T> value = f(widen(a.packs[p][j]), widen(beside[j]));
      values[j] = narrow<T>(add ? widen(values[j]) + value : value);
    }
    store_output_pack<N>(result + a.offset(p), values);
  }
}

// A row of any length, in chunks of a few packs a thread, which are loaded side by side.
template <class T, int N>
struct StreamedRow {
  static constexpr int kPacks = sizeof(T) == 8 ? 1 : N == 1 ? 8 : 4;
  using Chunk = HeldRow<T, N, kPacks>;
  RowTeam team;
  const T* row;
  Index length;

  JNORM_DEVICE StreamedRow(const RowTeam& row_team, const T* address, Index row_length)
      : team(row_team), row(address), length(row_length) {}
  JNORM_DEVICE Index chunk_length() const { return Index{kPacks} * N * team.threads; }
  JNORM_DEVICE Index chunks() const { return (length + chunk_length() - 1) / chunk_length(); }
  JNORM_DEVICE Chunk chunk(Index i, T filler) const { return Chunk(team, row, i * chunk_length(), length, filler); }
};

// The largest element of a row and its sum of exp(x - largest), 0 where all are -inf. NaN is in the sum alone.
template <class T, int N>
JNORM_DEVICE OnlineSoftmax<Wide<T>> team_softmax(const StreamedRow<T, N>& stream) {
  using A = Wide<T>;
  OnlineSoftmax<A> mine;
  for (Index i = 0; i < stream.chunks(); ++i) {
    const auto chunk = stream.chunk(i, narrow<T>(-A(INFINITY)));
    A largest = mine.largest;
    chunk.each([&](T x) { largest = fmax(largest, widen(x)); });
    const A shift = largest == -A(INFINITY) ? A(0) : largest;
    mine.sum *= exp_for<T>(mine.largest - shift);
    chunk.each([&](T x) { mine.sum += exp_for<T>(widen(x) - shift); });
    mine.largest = largest;
  }
  const A largest = stream.team.reduce(Max<A>{mine.largest}).value;
  const A share =
      mine.largest == -A(INFINITY) ? A(1) : exp_for<T>(mine.largest - largest);  // of a sum that is 0 or NaN
  return {largest, stream.team.reduce(Sum<A>{mine.sum * share}).value};
}

}  // namespace jnorm::cuda
