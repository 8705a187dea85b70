#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <jnorm/cuda/launch.cuh>
#include <jnorm/cuda/reduce.cuh>

#include "cuda/test_device.hpp"

namespace jnorm::cuda {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class State>
JNORM_DEVICE bool same_bits(const State& a, const State& b) {
  unsigned left[sizeof(State) / 4], right[sizeof(State) / 4];
  memcpy(left, &a, sizeof a);
  memcpy(right, &b, sizeof b);
  bool same = true;
  JNORM_UNROLL
  for (std::size_t i = 0; i < sizeof(State) / 4; ++i) same = same && left[i] == right[i];
  return same;
}

// Thread t reduces x[t], x[t + block_size], ...; y[0], y[1], ... are the members of thread 0's result, and the last
// place counts the threads whose result has other bits.
template <class State, class Read, class Write>
JNORM_DEVICE void reduce_strided(const float* x, Index count, float* y, Read read, Write write) {
  State state;
  for (Index i = thread_index(); i < count; i += block_size()) state = combine(state, read(x[i]));
  state = block_reduce(state, dynamic_smem<State>());
  const State first = shuffle(state, 0);
  if (!same_bits(first, state)) atomic_add(reinterpret_cast<int*>(y + 3), 1);
  if (thread_index() == 0) write(state, y);
}

JNORM_KERNEL(1024) reduce_max(const float* x, Index count, float* y) {
  reduce_strided<Max<float>>(
      x, count, y, [](float value) { return Max<float>{value}; },
      [](const Max<float>& state, float* result) { result[0] = state.value; });
}
JNORM_KERNEL(1024) reduce_pair(const float* x, Index count, float* y) {
  reduce_strided<SumPair<float>>(
      x, count, y,
      [](float value) {
        return SumPair<float>{value, value * value};
      },
      [](const SumPair<float>& state, float* result) {
        result[0] = state.first;
        result[1] = state.second;
      });
}
JNORM_KERNEL(1024) reduce_moments(const float* x, Index count, float* y) {
  reduce_strided<Moments<float>>(
      x, count, y,
      [](float value) {
        return Moments<float>{1.0F, value, 0.0F};
      },
      [](const Moments<float>& state, float* result) {
        result[0] = state.count;
        result[1] = state.mean;
        result[2] = state.squares;
      });
}
JNORM_KERNEL(1024) reduce_softmax(const float* x, Index count, float* y) {
  reduce_strided<OnlineSoftmax<float>>(
      x, count, y,
      [](float value) {
        return OnlineSoftmax<float>{value, exp_below(value, value)};
      },
      [](const OnlineSoftmax<float>& state, float* result) {
        result[0] = state.largest;
        result[1] = state.sum;
      });
}
JNORM_KERNEL(1024) two_block_sums(float* y) {
  auto* const scratch = dynamic_smem<Sum<float>>();
  const auto indices = block_reduce(Sum<float>{static_cast<float>(thread_index())}, scratch);
  const auto count = block_reduce(Sum<float>{1.0F}, scratch);
  if (thread_index() == 0) y[0] = indices.value;
  if (thread_index() == 1) y[1] = count.value;
}

// The members of the state that x is reduced to by a block of so many threads.
using Reduction = void (*)(const float*, Index, float*);
std::vector<double> reduce(Reduction kernel, const std::vector<double>& values, int threads) {
  const Index count = static_cast<Index>(values.size());
  const Tensor x = tensor({count}, values, DType::float32).to(test::test_device());
  const Tensor y = zeros({4}, DType::float32, test::test_device());
  launch("reduce", test::test_context(), {.threads = threads, .shared_bytes = 32 * sizeof(Moments<float>)}, kernel,
         input<float>(x), count, output<float>(y));
  CHECK(y.values()[3] == 0.0);  // all threads have the same bits
  return y.values();
}

template <class F>
void for_each_block_size(const F& f) {
  test::for_each_schedule([&] {
    for (const int threads : {32, 96, 1024}) f(threads);
  });
}

std::vector<double> numbers(int count, double first, double step) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(first + i % 7 * step);
  return values;
}

}  // namespace

TEST_CASE("cuda reduce: a block's reductions see every thread, and may share their scratch") {
  for_each_block_size([](int threads) {
    const Tensor y = zeros({2}, DType::float32, test::test_device());
    launch("two_block_sums", test::test_context(), {.threads = threads, .shared_bytes = 32 * 4}, two_block_sums,
           output<float>(y));
    CHECK(y.values() == std::vector<double>{threads * (threads - 1) / 2.0, 1.0 * threads});
  });
}

TEST_CASE("cuda reduce: the largest number, and NaN wherever one is") {
  for_each_block_size([](int threads) {
    std::vector<double> values = numbers(1500, -9, 1);
    CHECK(reduce(reduce_max, values, threads)[0] == -3.0);
    CHECK(reduce(reduce_max, {}, threads)[0] == -kInfinity);
    for (const std::size_t place : {0, 31, 32, 1499}) {
      std::vector<double> spoiled = values;
      spoiled[place] = kNaN;
      CHECK(std::isnan(reduce(reduce_max, spoiled, threads)[0]));
    }
  });
}

TEST_CASE("cuda reduce: a pair of sums, whole numbers and so exact") {
  for_each_block_size([](int threads) {
    const std::vector<double> y = reduce(reduce_pair, numbers(700, 0, 1), threads);
    CHECK(y[0] == 2100.0);
    CHECK(y[1] == 9100.0);
  });
}

// Sums of squares of float32 numbers near 1449 would lose all of a variance of .25: each is 2.1e6 with a spacing of
// .25.
TEST_CASE("cuda reduce: moments of numbers whose mean is far above their spread") {
  for_each_block_size([](int threads) {
    std::vector<double> values;
    for (int i = 0; i < 1000; ++i) values.push_back(i % 2 == 0 ? 1448.5 : 1449.5);
    const std::vector<double> y = reduce(reduce_moments, values, threads);
    CHECK(y[0] == 1000.0);
    CHECK(y[1] == doctest::Approx(1449.0).epsilon(1e-6));
    CHECK(y[2] == doctest::Approx(250.0).epsilon(1e-4));
  });
}

TEST_CASE("cuda reduce: moments of fewer numbers than threads, and of none") {
  for_each_block_size([](int threads) {
    const std::vector<double> y = reduce(reduce_moments, {1, 2, 6}, threads);
    CHECK(y[0] == 3.0);
    CHECK(y[1] == doctest::Approx(3.0).epsilon(1e-6));
    CHECK(y[2] == doctest::Approx(14.0).epsilon(1e-6));
    CHECK(reduce(reduce_moments, {}, threads)[0] == 0.0);
  });
}

TEST_CASE("cuda reduce: the largest and the sum of exponentials, far from overflow") {
  for_each_block_size([](int threads) {
    const std::vector<double> y = reduce(reduce_softmax, {1000, 1000, 999, -1000}, threads);
    CHECK(y[0] == 1000.0);
    CHECK(y[1] == doctest::Approx(2.3678794).epsilon(1e-6));
  });
}

TEST_CASE("cuda reduce: no exponential of -inf less -inf, and NaN where NaN is") {
  for_each_block_size([](int threads) {
    CHECK(reduce(reduce_softmax, {-kInfinity, -kInfinity}, threads)[1] == 0.0);
    CHECK(reduce(reduce_softmax, {}, threads)[1] == 0.0);
    CHECK(reduce(reduce_softmax, {-kInfinity, 2, 2}, threads)[1] == 2.0);
    CHECK(std::isnan(reduce(reduce_softmax, {1, kNaN, 2}, threads)[1]));
  });
}

}  // namespace jnorm::cuda
