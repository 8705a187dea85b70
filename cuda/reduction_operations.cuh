#pragma once

// What a reduction does with elements: the state that it starts from, one element more, and the result of a state.
// States are joined by combine (reduce.cuh). `position` is where along the reduced axis an element stands.

#include <jnorm/cuda/pack.cuh>
#include <jnorm/cuda/reduce.cuh>

namespace jnorm::cuda {

template <class T>
struct SumOf {
  using State = Sum<Wide<T>>;
  using Partial = Wide<T>;  // results of parts, of which the same operation makes the whole
  JNORM_DEVICE void add(State& state, T x, Index /*position*/) const { state.value += widen(x); }
  JNORM_DEVICE Wide<T> finish(const State& state) const { return state.value; }
};

// The largest of sign x, times the sign: for -1 the smallest of x.
template <class T>
struct MaxOf {
  using State = Max<Wide<T>>;
  using Partial = Wide<T>;
  int sign;
  JNORM_DEVICE void add(State& state, T x, Index /*position*/) const {
    state.value = nan_max(state.value, widen(x) * Wide<T>(sign));
  }
  JNORM_DEVICE Wide<T> finish(const State& state) const { return state.value * Wide<T>(sign); }
};

// In float64, where no square of a narrower element leaves the range.
template <class T>
struct L2NormOf {
  using State = Sum<double>;
  using Partial = double;
  JNORM_DEVICE void add(State& state, T x, Index /*position*/) const {
    const auto wide = static_cast<double>(widen(x));
    state.value += wide * wide;
  }
  JNORM_DEVICE double finish(const State& state) const { return sqrt(state.value); }
};

template <class T>
struct LogSumExpOf {
  using State = OnlineSoftmax<Wide<T>>;
  using Partial = Wide<T>;
  JNORM_DEVICE void add(State& state, T x, Index /*position*/) const {
    state = combine(state, State{widen(x), Wide<T>(1)});
  }
  // The sum is NaN where the largest is +inf: inf - inf.
  JNORM_DEVICE Wide<T> finish(const State& state) const {
    return state.largest == Wide<T>(INFINITY) ? state.largest : log(state.sum) + state.largest;
  }
};

// The largest element and where it stands first; NaN is the largest of all.
template <class A>
struct Largest {
  A value = -A(INFINITY);
  std::int32_t position = INT32_MAX;
};
template <class A>
JNORM_DEVICE Largest<A> combine(const Largest<A>& a, const Largest<A>& b) {
  const bool equal = a.value == b.value || (a.value != a.value && b.value != b.value);
  if (equal) return a.position < b.position ? a : b;
  return a.value > b.value || a.value != a.value ? a : b;
}
template <class A>
JNORM_DEVICE Largest<A> shuffle_xor(const Largest<A>& s, int lanes) {
  return {shuffle_xor(s.value, lanes), shuffle_xor(s.position, lanes)};
}
template <class A>
JNORM_DEVICE Largest<A> shuffle(const Largest<A>& s, int source_lane) {
  return {shuffle(s.value, source_lane), shuffle(s.position, source_lane)};
}

template <class T>
struct ArgMaxOf {
  using State = Largest<Wide<T>>;
  JNORM_DEVICE void add(State& state, T x, Index position) const {
    state = combine(state, State{widen(x), static_cast<std::int32_t>(position)});
  }
  JNORM_DEVICE std::int32_t finish(const State& state) const { return state.position; }
};

template <class Operation, class T, int N>
JNORM_DEVICE void add_pack(const Operation& operation, typename Operation::State& state, const Pack<T, N>& x,
                           Index position) {
  JNORM_UNROLL
  for (int i = 0; i < N; ++i) operation.add(state, x[i], position + i);
}
// One rescaling a pack, and one exponential an element.
template <class T, int N>
JNORM_DEVICE void add_pack(const LogSumExpOf<T>& /*operation*/, OnlineSoftmax<Wide<T>>& state, const Pack<T, N>& x,
                           Index /*position*/) {
  OnlineSoftmax<Wide<T>> own;
  JNORM_UNROLL
  for (int i = 0; i < N; ++i) own.largest = nan_max(own.largest, widen(x[i]));
  JNORM_UNROLL
  for (int i = 0; i < N; ++i) own.sum += exp_below(widen(x[i]), own.largest);
  state = combine(state, own);
}

}  // namespace jnorm::cuda
