// What the tape itself costs: a chain of multiplications of 4-element tensors, forward and backward.

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

}  // namespace
