// What the tape itself costs: a chain of multiplications of 4-element tensors, forward and backward.

#include <sys/resource.h>

#include <benchmark/benchmark.h>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/parallel.hpp>

using namespace jnorm;

namespace {

void multiplication_chain(benchmark::State& state) {
  const auto length = static_cast<int>(state.range(0));
  set_thread_count(static_cast<int>(state.range(1)));
  const Tensor one = ones({4});
  Tape tape;
  for (auto _ : state) {
    tape.reset();
    const Var x = tape.variable(one);
    Var y = x;
    for (int i = 0; i < length; ++i) y = y * x;
    tape.backward(sum(y));
    benchmark::DoNotOptimize(x.gradient().raw_data());
  }
  state.counters["seconds_per_operation"] =
      benchmark::Counter(length, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

BENCHMARK(multiplication_chain)->Args({20000, 1})->UseRealTime()->Unit(benchmark::kMicrosecond);

// A tape that is made, recorded, swept and destroyed: what a long chain costs from nothing to nothing. The counter is
// the most memory that the whole process had at any time.
void fresh_tape(benchmark::State& state) {
  const auto length = static_cast<int>(state.range(0));
  set_thread_count(static_cast<int>(state.range(1)));
  const Tensor one = ones({4});
  for (auto _ : state) {
    Tape tape;
    const Var x = tape.variable(one);
    Var y = x;
    for (int i = 0; i < length; ++i) y = y * x;
    tape.backward(sum(y));
    benchmark::DoNotOptimize(x.gradient().raw_data());
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_megabytes"] = static_cast<double>(usage.ru_maxrss) / 1000.0;
}

BENCHMARK(fresh_tape)->Args({1000000, 1})->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
