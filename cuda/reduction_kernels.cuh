#pragma once

// Reductions of x [outer, length, inner] over its middle axis: to y [outer, inner], or to states [outer, parts, inner],
// which a second pass reduces. x holds elements, or such states. Sums are taken in an order that follows from the shape
// alone.

#include <jnorm/cuda/config.hpp>
#include <jnorm/cuda/reduction_operations.cuh>

namespace jnorm::cuda {

// Where results go, rounded once to the elements' dtype, or added to what is there; or the states without a last step.
struct Results {
  void* data;
  DType dtype{};
  bool add = false;
  bool states = false;
};

template <class T, int N, class W>
JNORM_DEVICE void store_as(T* y, const W (&values)[N], bool add) {
  JNORM_UNROLL
  for (int i = 0; i < N; ++i) y[i] = static_cast<T>(add ? values[i] + static_cast<W>(widen(y[i])) : values[i]);
}
template <int N, class W>
JNORM_DEVICE void store_results(const Results& y, Index first, const W (&values)[N]) {
  switch (y.dtype) {
    case DType::float64: return store_as(static_cast<double*>(y.data) + first, values, y.add);
    case DType::float32: return store_as(static_cast<float*>(y.data) + first, values, y.add);
    case DType::bfloat16: return store_as(static_cast<DeviceBFloat16*>(y.data) + first, values, y.add);
    case DType::float16: return store_as(static_cast<DeviceFloat16*>(y.data) + first, values, y.add);
    case DType::int32: return;
  }
}
template <int N>
JNORM_DEVICE void store_results(const Results& y, Index first, const std::int32_t (&values)[N]) {
  JNORM_UNROLL
  for (int i = 0; i < N; ++i) static_cast<std::int32_t*>(y.data)[first + i] = values[i];
}
template <class Operation, class State, int N>
JNORM_DEVICE void finish_and_store(const Operation& operation, const Results& y, Index first,
                                   const State (&states)[N]) {
  if (y.states) {
    JNORM_UNROLL
    for (int i = 0; i < N; ++i) static_cast<State*>(y.data)[first + i] = states[i];
    return;
  }
  decltype(operation.finish(states[0])) results[N];
  JNORM_UNROLL
  for (int i = 0; i < N; ++i) results[i] = operation.finish(states[i]);
  store_results(y, first, results);
}

// What lane `lane` of `lanes` makes of x[0, length), of which x[0] stands at `position`. Elements before the first
// address that 16 divides, and after the last whole pack, are taken one by one.
template <class Operation, class T>
JNORM_DEVICE typename Operation::State reduce_run(const Operation& operation, const T* x, Index length, Index position,
                                                  int lane, int lanes) {
  constexpr int pack_size = kPackSize<T>;
  typename Operation::State state;
  const int beyond = static_cast<int>(reinterpret_cast<std::uintptr_t>(x) % 16 / sizeof(T));
  const Index head = beyond == 0 ? 0 : (pack_size - beyond < length ? pack_size - beyond : length);
  const Index packs = (length - head) / pack_size, tail = head + packs * pack_size;
  for (Index i = lane; i < head; i += lanes) add_one(operation, state, x[i], position + i);
  for (Index i = lane; i < packs; i += Index{Loaded<T, pack_size>::kPacks} * lanes) {
    const Index first = head + i * pack_size, step = Index{lanes} * pack_size;
    Loaded<T, pack_size> loaded;
    loaded.position = position + first;
    loaded.step = step;
    JNORM_UNROLL
    for (int n = 0; n < loaded.kPacks; ++n) {
      if (i + n * lanes >= packs) continue;
      loaded.packs[n] = load_pack<pack_size>(x + first + n * step);
      ++loaded.held;
    }
    add_loaded(operation, state, loaded);
  }
  for (Index i = tail + lane; i < length; i += lanes) add_one(operation, state, x[i], position + i);
  return state;
}

// inner = 1: runs of neighbouring elements, each by some lanes of a warp or by the whole block.
template <class Operation, class T>
JNORM_KERNEL(kReductionThreads)
reduce_rows_kernel(Operation operation, const T* x, Results y, ReductionPlan plan) {
  const Index at_once = block_size() / plan.lanes, runs = plan.outer * plan.parts;
  const int lane = thread_index() % plan.lanes;
  for (Index first = block_x() * at_once; first < runs; first += grid_x() * at_once) {
    const Index run = first + thread_index() / plan.lanes;
    typename Operation::State state;
    if (run < runs) {
      const Index row = plan.parts == 1 ? run : run / plan.parts, begin = (run - row * plan.parts) * plan.part_length;
      const Index rest = plan.length - begin;
      state = reduce_run(operation, x + row * plan.length + begin, rest < plan.part_length ? rest : plan.part_length,
                         begin, lane, plan.lanes);
    }
    state = plan.lanes > kWarpSize ? block_reduce(state, dynamic_smem<typename Operation::State>())
                                   : lanes_reduce(state, plan.lanes);
    if (lane == 0 && run < runs) finish_and_store(operation, y, run, {state});
  }
}

// inner > 1: N neighbouring columns a thread, a group of lanes every groups-th row of a part. Groups are joined in
// shared memory, halves by halves.
template <int N, class Operation, class T>
JNORM_KERNEL(kReductionThreads)
reduce_columns_kernel(Operation operation, const T* x, Results y, ReductionPlan plan) {
  using State = typename Operation::State;
  constexpr int loads = Loaded<T, 1>::kPacks;
  const int groups = block_size() / plan.lanes, group = thread_index() / plan.lanes;
  const Index packs_across = plan.inner / N, packs = plan.outer * packs_across;
  const Index tiles = (packs + plan.lanes - 1) / plan.lanes, part = block_x() / tiles;
  const Index pack = (block_x() - part * tiles) * plan.lanes + thread_index() % plan.lanes;
  const Index outer = pack / packs_across, column = (pack - outer * packs_across) * N;
  const Index end_of_part = (part + 1) * plan.part_length, end = end_of_part < plan.length ? end_of_part : plan.length;

  State states[N];
  if (pack < packs) {
    const T* const from = x + outer * plan.length * plan.inner + column;
    for (Index first = part * plan.part_length + group; first < end; first += Index{loads} * groups) {
      Pack<T, N> rows[loads];
      int held = 0;
      JNORM_UNROLL
      for (int n = 0; n < loads; ++n) {
        const Index row = first + n * groups;
        if (row >= end) continue;
        rows[n] = load_pack<N>(from + row * plan.inner);
        ++held;
      }
      JNORM_UNROLL
      for (int i = 0; i < N; ++i) {
        Loaded<T, 1> loaded;
        loaded.held = held;
        loaded.position = first;
        loaded.step = groups;
        JNORM_UNROLL
        for (int n = 0; n < loads; ++n) loaded.packs[n][0] = rows[n][i];
        add_loaded(operation, states[i], loaded);
      }
    }
  }

  State* const scratch = dynamic_smem<State>() + thread_index();  // [N, block size]
  for (int half = groups / 2; half > 0; half /= 2) {
    if (group >= half && group < 2 * half) {
      JNORM_UNROLL
      for (int i = 0; i < N; ++i) scratch[i * block_size()] = states[i];
    }
    block_barrier();
    if (group < half) {
      JNORM_UNROLL
      for (int i = 0; i < N; ++i) states[i] = combine(states[i], scratch[i * block_size() + half * plan.lanes]);
    }
  }
  if (group == 0 && pack < packs) {
    finish_and_store(operation, y, (outer * plan.parts + part) * plan.inner + column, states);
  }
}

}  // namespace jnorm::cuda
