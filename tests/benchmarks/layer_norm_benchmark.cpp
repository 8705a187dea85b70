// LayerNorm with gamma and beta, forward and backward on a tape. Arguments: rows, width, threads.

#include <benchmark/benchmark.h>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/parallel.hpp>
#include <jnorm/core/random.hpp>

using namespace jnorm;

namespace {

void layer_norm_both_ways(benchmark::State& state) {
  const Index rows = state.range(0);
  const Index width = state.range(1);
  set_thread_count(static_cast<int>(state.range(2)));
  Rng rng(1);
  const Tensor x = randn({rows, width}, rng);
  const Tensor dy = randn({rows, width}, rng);
  Parameter gamma("gamma", ones({width}));
  Parameter beta("beta", zeros({width}));
  Tape tape;
  for (auto _ : state) {
    tape.reset();
    const Var input = tape.variable(x);
    const Var y = layer_norm(input, tape.parameter(gamma), tape.parameter(beta));
    tape.backward(y, {.cotangent = dy});
    benchmark::DoNotOptimize(input.gradient().raw_data());
    gamma.clear_gradient();
    beta.clear_gradient();
  }
  const auto moved = static_cast<double>(5 * rows * width) * sizeof(float);  // x, y; x, dy, dx
  state.counters["bytes_per_second"] = benchmark::Counter(moved, benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK(layer_norm_both_ways)
    ->ArgsProduct({{1024}, {64}, {1, 2}})
    ->ArgsProduct({{4096}, {256}, {1, 2}})
    ->ArgsProduct({{16384}, {1024}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
