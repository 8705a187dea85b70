#pragma once

// What a reduction does with elements: the state that it starts from, one element more, and the result of a state.
// States are joined by combine (reduce.cuh). `position` is where along the reduced axis an element stands. The states
// of parts, joined, give the result of the whole.

#include <jnorm/cuda/pack.cuh>
#include <jnorm/cuda/reduce.cuh>

namespace jnorm::cuda {

template <class T>
struct SumOf {
  using State = Sum<Wide<T>>;
  JNORM_DEVICE void add(State& state, T x, Index /*position*/) const { state.value += widen(x); }
  JNORM_DEVICE Wide<T> finish(const State& state) const { return state.value; }
};

// The largest of sign x, times the sign: for -1 the smallest of x.
template <class T>
struct MaxOf {
  using State = Max<Wide<T>>;
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
  JNORM_DEVICE void add(State& state, T x, Index /*position*/) const {
    const auto wide = static_cast<double>(widen(x));
    state.value += wide * wide;
  }
  JNORM_DEVICE double finish(const State& state) const { return sqrt(state.value); }
};

template <class T>
struct LogSumExpOf {
  using State = OnlineSoftmax<Wide<T>>;
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

// The sum of squared deviations from the mean, divided by a number. In float64, since in float32 the means of parts
// would be rounded to more than what elements far from 0 differ by.
template <class T>
struct VarianceOf {
  using State = Moments<double>;
  double divisor;
  JNORM_DEVICE void add(State& state, T x, Index /*position*/) const {
    state = combine(state, State{1.0, static_cast<double>(widen(x)), 0.0});
  }
  JNORM_DEVICE double finish(const State& state) const { return state.squares / divisor; }
};

// Elements, or states of parts, that a thread has loaded together: the first `held` of these packs.
template <class T, int N>
struct Loaded {
  static constexpr int kPacks = 4;
  Pack<T, N> packs[kPacks];
  int held = 0;
  Index position, step;  // of the first one, and from each pack to the next

  JNORM_DEVICE int count() const { return held * N; }
  JNORM_DEVICE const T& first() const { return packs[0][0]; }
  template <class F>
  JNORM_DEVICE void for_each(const F& f) const {
    JNORM_UNROLL
    for (int n = 0; n < kPacks; ++n) {
      if (n >= held) continue;
      JNORM_UNROLL
      for (int i = 0; i < N; ++i) f(packs[n][i], position + n * step + i);
    }
  }
};

template <class Operation, class T>
JNORM_DEVICE void add_one(const Operation& operation, typename Operation::State& state, const T& x, Index position) {
  if constexpr (std::is_same_v<T, typename Operation::State>) {
    state = combine(state, x);
  } else {
    operation.add(state, x, position);
  }
}

template <class Operation, class T, int N>
JNORM_DEVICE void add_loaded(const Operation& operation, typename Operation::State& state, const Loaded<T, N>& loaded) {
  loaded.for_each([&](const T& x, Index position) { add_one(operation, state, x, position); });
}
// One rescaling for all, and one exponential an element.
template <class T, int N>
JNORM_DEVICE void add_loaded(const LogSumExpOf<T>& /*operation*/, OnlineSoftmax<Wide<T>>& state,
                             const Loaded<T, N>& loaded) {
  OnlineSoftmax<Wide<T>> own;
  loaded.for_each([&](T x, Index /*position*/) { own.largest = nan_max(own.largest, widen(x)); });
  loaded.for_each([&](T x, Index /*position*/) { own.sum += exp_below(widen(x), own.largest); });
  state = combine(state, own);
}
// One merge for all. They are taken relative to the first of them, whose own deviation keeps that from cancelling.
template <class T, int N>
JNORM_DEVICE void add_loaded(const VarianceOf<T>& /*operation*/, Moments<double>& state, const Loaded<T, N>& loaded) {
  using W = Wide<T>;
  if (loaded.held == 0) return;
  const W pivot = widen(loaded.first()), count = static_cast<W>(loaded.count());
  SumPair<W> deviations;
  loaded.for_each([&](T x, Index /*position*/) {
    const W deviation = widen(x) - pivot;
    deviations = combine(deviations, {deviation, deviation * deviation});
  });
  const double sum = deviations.first, mean = deviations.first / count;
  state = combine(state, {count, pivot + mean, deviations.second - mean * sum});
}

}  // namespace jnorm::cuda
