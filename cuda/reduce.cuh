#pragma once

// Reductions over a warp and over a block, in an order that depends on the block's size alone, so that results have the
// same bits in each run. What is reduced is a state: a struct with combine(a, b) and shuffle_xor, shuffle of its
// members.

#include <jnorm/cuda/portable.cuh>

namespace jnorm::cuda {

template <class A>
struct Sum {
  A value = A(0);
};
template <class A>
JNORM_DEVICE Sum<A> combine(const Sum<A>& a, const Sum<A>& b) {
  return {a.value + b.value};
}
template <class A>
JNORM_DEVICE Sum<A> shuffle_xor(const Sum<A>& s, int lanes) {
  return {shuffle_xor(s.value, lanes)};
}
template <class A>
JNORM_DEVICE Sum<A> shuffle(const Sum<A>& s, int source_lane) {
  return {shuffle(s.value, source_lane)};
}

// Two sums at once: of the row passes that need a mean of u and one of u x_hat.
template <class A>
struct SumPair {
  A first = A(0), second = A(0);
};
template <class A>
JNORM_DEVICE SumPair<A> combine(const SumPair<A>& a, const SumPair<A>& b) {
  return {a.first + b.first, a.second + b.second};
}
template <class A>
JNORM_DEVICE SumPair<A> shuffle_xor(const SumPair<A>& s, int lanes) {
  return {shuffle_xor(s.first, lanes), shuffle_xor(s.second, lanes)};
}
template <class A>
JNORM_DEVICE SumPair<A> shuffle(const SumPair<A>& s, int source_lane) {
  return {shuffle(s.first, source_lane), shuffle(s.second, source_lane)};
}

// The larger of two numbers; NaN wins, which fmax would drop.
template <class A>
JNORM_DEVICE A nan_max(A a, A b) {
  return a > b || a != a ? a : b;
}
template <class A>
JNORM_DEVICE A nan_min(A a, A b) {
  return a < b || a != a ? a : b;
}

template <class A>
struct Max {
  A value = -A(INFINITY);
};
template <class A>
JNORM_DEVICE Max<A> combine(const Max<A>& a, const Max<A>& b) {
  return {nan_max(a.value, b.value)};
}
template <class A>
JNORM_DEVICE Max<A> shuffle_xor(const Max<A>& s, int lanes) {
  return {shuffle_xor(s.value, lanes)};
}
template <class A>
JNORM_DEVICE Max<A> shuffle(const Max<A>& s, int source_lane) {
  return {shuffle(s.value, source_lane)};
}

// Count, mean and sum of squared deviations of some numbers; two are merged by Chan, Golub and LeVeque's formula
// (1979).
template <class A>
struct Moments {
  A count = A(0), mean = A(0), squares = A(0);
};
template <class A>
JNORM_DEVICE Moments<A> combine(const Moments<A>& a, const Moments<A>& b) {
  if (b.count == A(0)) return a;
  if (a.count == A(0)) return b;
  const A count = a.count + b.count, distance = b.mean - a.mean, share = b.count / count;
  return {count, a.mean + distance * share, a.squares + b.squares + distance * distance * a.count * share};
}
template <class A>
JNORM_DEVICE Moments<A> shuffle_xor(const Moments<A>& s, int lanes) {
  return {shuffle_xor(s.count, lanes), shuffle_xor(s.mean, lanes), shuffle_xor(s.squares, lanes)};
}
template <class A>
JNORM_DEVICE Moments<A> shuffle(const Moments<A>& s, int source_lane) {
  return {shuffle(s.count, source_lane), shuffle(s.mean, source_lane), shuffle(s.squares, source_lane)};
}

// The largest of some numbers and the sum of exp(x - largest): logsumexp in one pass. Of no numbers, or where all are
// -inf, the sum is 0 and no exp(-inf - -inf) is evaluated.
template <class A>
struct OnlineSoftmax {
  A largest = -A(INFINITY), sum = A(0);
};
template <class A>
JNORM_DEVICE A exp_below(A x, A largest) {
  return x == -A(INFINITY) ? A(0) : exp(x - largest);
}
template <class A>
JNORM_DEVICE OnlineSoftmax<A> combine(const OnlineSoftmax<A>& a, const OnlineSoftmax<A>& b) {
  const A largest = nan_max(a.largest, b.largest);
  return {largest, a.sum * exp_below(a.largest, largest) + b.sum * exp_below(b.largest, largest)};
}
template <class A>
JNORM_DEVICE OnlineSoftmax<A> shuffle_xor(const OnlineSoftmax<A>& s, int lanes) {
  return {shuffle_xor(s.largest, lanes), shuffle_xor(s.sum, lanes)};
}
template <class A>
JNORM_DEVICE OnlineSoftmax<A> shuffle(const OnlineSoftmax<A>& s, int source_lane) {
  return {shuffle(s.largest, source_lane), shuffle(s.sum, source_lane)};
}

// Over each run of so many lanes, a power of two. Every lane gets the result of its run's first one: merging isn't
// commutative to the last bit for every state.
template <class State>
JNORM_DEVICE State lanes_reduce(State state, int lanes) {
  JNORM_UNROLL
  for (int distance = lanes / 2; distance > 0; distance /= 2) state = combine(state, shuffle_xor(state, distance));
  return shuffle(state, lane_index() & -lanes);
}
template <class State>
JNORM_DEVICE State warp_reduce(const State& state) {
  return lanes_reduce(state, kWarpSize);
}

// Every thread gets the result. scratch, in shared memory, has a place for each warp of the block; it may be the same
// in each of several reductions.
template <class State>
JNORM_DEVICE State block_reduce(State state, State* scratch) {
  state = warp_reduce(state);
  const int warps = block_size() / kWarpSize;
  if (warps == 1) return state;
  block_barrier();  // the reduction before may still be reading
  if (lane_index() == 0) scratch[warp_index()] = state;
  block_barrier();
  State total = scratch[0];
  for (int warp = 1; warp < warps; ++warp) total = combine(total, scratch[warp]);
  return total;
}

}  // namespace jnorm::cuda
