// The dense Jacobian of a Pre-Norm Transformer block, in float64. Arguments: tokens, width, heads, threads.

#include <benchmark/benchmark.h>

#include <jnorm/autograd/linear_map.hpp>
#include <jnorm/core/parallel.hpp>
#include <jnorm/layers/transformer.hpp>

using namespace jnorm;

namespace {

// Recording the block is part of the work, as it is for those that run beside this.
void block_jacobian(benchmark::State& state) {
  const Index tokens = state.range(0);
  const Index width = state.range(1);
  set_thread_count(static_cast<int>(state.range(3)));
  Rng rng(1);
  Block block({.layers = 1, .dim = width, .heads = state.range(2), .context = tokens}, rng);
  block.to(DType::float64);
  const Tensor input = randn({1, tokens, width}, rng, DType::float64);
  Tape tape;
  for (auto _ : state) {
    tape.reset();
    const Var x = tape.constant(input);
    benchmark::DoNotOptimize(jacobian(block(x), x).raw_data());
  }
}

BENCHMARK(block_jacobian)->Args({16, 64, 4, 1})->Args({16, 64, 4, 2})->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
