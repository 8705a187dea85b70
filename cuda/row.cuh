#pragma once

// Rows, and the threads that share them. A team, a warp or a block, takes a row. Each thread holds some packs of it in
// registers: neighbouring threads neighbouring packs, so that a load of the team is one piece of memory. A row of 10
// packs, held by a team of 4 threads, 3 packs each:
//
//   pack     0  1  2  3  4  5  6  7  8  9
//   thread   0  1  2  3  0  1  2  3  0  1  2  3
//            `- v = 0 -' `- v = 1 -' `- v = 2 -'     threads 2 and 3 load pack 9 again, and pass over it
//
// A row that fits is read once. A longer one is streamed: it is a sequence of chunks, each of which fits, and is read
// as often as it is needed. Which of these a kernel does for rows of some length, a RowPlan says (config.hpp).

#include <type_traits>

#include <jnorm/cuda/config.hpp>
#include <jnorm/cuda/pack.cuh>
#include <jnorm/cuda/reduce.cuh>

namespace jnorm::cuda {

// A warp for each row, beside other warps with rows of their own, in blocks of so many threads at most.
template <int MaxThreads>
struct WarpTeam {
  static constexpr bool kRowsShareBlock = true;
  static constexpr int kMaxThreads = MaxThreads;
  JNORM_DEVICE static int index() { return lane_index(); }
  JNORM_DEVICE static int size() { return kWarpSize; }
  JNORM_DEVICE static int in_block() { return warp_index(); }
  JNORM_DEVICE static int per_block() { return block_size() / kWarpSize; }
  JNORM_DEVICE static Index row() { return block_x() * per_block() + in_block(); }  // a row for each team of the grid
  // Every thread gets the result.
  template <class State>
  JNORM_DEVICE static State reduce(const State& state) {
    return warp_reduce(state);
  }
};

// A block for each row, of so many threads at most. Its first kReductionBytes of shared memory serve the reductions.
template <int MaxThreads>
struct BlockTeam {
  static constexpr bool kRowsShareBlock = false;
  static constexpr int kMaxThreads = MaxThreads;
  JNORM_DEVICE static int index() { return thread_index(); }
  JNORM_DEVICE static int size() { return block_size(); }
  JNORM_DEVICE static int in_block() { return 0; }
  JNORM_DEVICE static int per_block() { return 1; }
  JNORM_DEVICE static Index row() { return block_x(); }
  template <class State>
  JNORM_DEVICE static State reduce(const State& state) {
    static_assert(sizeof(State) * kMaxThreads / kWarpSize <= kReductionBytes);
    return block_reduce(state, dynamic_smem<State>());
  }
};

// What a thread holds of a row: V packs at most, in registers, since v is known wherever a loop over them is unrolled.
// Where the row has no v-th pack for this thread, it holds the row's last one, so that loads need no branch.
template <class Team, class T, int N, int V>
struct HeldRow {
  Pack<T, N> held[V];
  int packs;  // of the row, which has one at least

  // Holds nothing yet.
  JNORM_DEVICE explicit HeldRow(int row_packs) : packs(row_packs) {}
  JNORM_DEVICE HeldRow(const T* row, int row_packs) : packs(row_packs) { load(row); }
  JNORM_DEVICE void load(const T* row) {
    JNORM_UNROLL
    for (int v = 0; v < V; ++v) load(row, v);
  }
  JNORM_DEVICE void load(const T* row, int v) { held[v] = load_input_pack<N>(row + pack(v) * N); }
  JNORM_DEVICE const Pack<T, N>& operator[](int v) const { return held[v]; }

  JNORM_DEVICE bool holds(int v) const { return Team::index() + v * Team::size() < packs; }
  // Which pack of the row the v-th one is, and the column that it begins with.
  JNORM_DEVICE int pack(int v) const { return holds(v) ? Team::index() + v * Team::size() : packs - 1; }
  JNORM_DEVICE Index column(int v) const { return Index{pack(v)} * N; }

  // f(v, column) for every pack of the row that this thread holds.
  template <class F>
  JNORM_DEVICE void for_each_pack(const F& f) const {
    JNORM_UNROLL
    for (int v = 0; v < V; ++v) {
      if (holds(v)) f(v, column(v));
    }
  }
  // f(element), widened, for every element of them.
  template <class F>
  JNORM_DEVICE void for_each(const F& f) const {
    for_each_pack([&](int v, Index /*column*/) {
      JNORM_UNROLL
      for (int j = 0; j < N; ++j) f(widen(held[v][j]));
    });
  }
};

// The sum of term(element), a state, over a row that is held.
template <class State, class Team, class T, int N, int V, class Term>
JNORM_DEVICE State reduce_held(const HeldRow<Team, T, N, V>& row, const Term& term) {
  State state;
  row.for_each([&](Wide<T> element) { state = combine(state, term(element)); });
  return Team::reduce(state);
}

// Some packs of a streamed row, whose loads are under way together.
template <class T, int N>
constexpr int kChunkPacks = N == 1 && sizeof(T) < 8 ? 8 : 4;
template <class Team, class T, int N>
using Chunk = HeldRow<Team, T, N, kChunkPacks<T, N>>;

// A second pass goes backwards: it begins with what the caches still hold.
enum class Direction : bool { forwards, backwards };

// f(chunk, column of its beginning) for all chunks of a row.
template <class Team, int N, class T, class F>
JNORM_DEVICE void for_each_chunk(const T* row, Index packs, Direction direction, const F& f) {
  using RowChunk = Chunk<Team, T, N>;
  const Index chunk_packs = Index{kChunkPacks<T, N>} * Team::size();
  const Index chunks = (packs + chunk_packs - 1) / chunk_packs;
  for (Index i = 0; i < chunks; ++i) {
    const Index first = (direction == Direction::forwards ? i : chunks - 1 - i) * chunk_packs;
    const Index left = packs - first < chunk_packs ? packs - first : chunk_packs;
    f(RowChunk(row + first * N, static_cast<int>(left)), first * N);
  }
}

// On the host: f<Team, V>() for the team and the packs of a plan made of the same choices. V is 0 where rows are
// streamed.
template <RowChoices kChoices, class F>
void with_row_team(const RowPlan& plan, const F& f) {
  if (plan.held_packs == 0) return f.template operator()<BlockTeam<kStreamThreads>, 0>();
  const auto if_planned = [&]<class Team, int V>(RowTeam team) {
    if constexpr (V > 0) {
      if (plan.team == team && plan.held_packs == V) f.template operator()<Team, V>();
    }
  };
  using Warp = WarpTeam<kChoices.warp_threads>;
  if_planned.template operator()<Warp, kChoices.warp[0]>(RowTeam::warp);
  if_planned.template operator()<Warp, kChoices.warp[1]>(RowTeam::warp);
  if_planned.template operator()<Warp, kChoices.warp[2]>(RowTeam::warp);
  using Block = BlockTeam<kChoices.block_threads>;
  if_planned.template operator()<Block, kChoices.block[0]>(RowTeam::block);
  if_planned.template operator()<Block, kChoices.block[1]>(RowTeam::block);
}

}  // namespace jnorm::cuda
