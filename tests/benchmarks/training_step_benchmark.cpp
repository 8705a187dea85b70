// One training step of a decoder-only Transformer: forward, backward, gradient clipping and AdamW.

#include <benchmark/benchmark.h>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/parallel.hpp>
#include <jnorm/core/pool.hpp>
#include <jnorm/layers/clip.hpp>
#include <jnorm/layers/optimizer.hpp>
#include <jnorm/layers/transformer.hpp>

using namespace jnorm;

namespace {

Tensor random_tokens(const Shape& shape, Rng& rng) {
  Tensor tokens = Tensor::uninitialized(shape, DType::int32);
  auto* const token = tokens.output_data<std::int32_t>();
  for (Index i = 0; i < tokens.size(); ++i) token[i] = static_cast<std::int32_t>(rng.below(256));
  return tokens;
}

// Arguments: batch, context, width, layers, threads. Heads are 16 columns wide.
void training_step(benchmark::State& state) {
  const Index batch = state.range(0);
  const Index context = state.range(1);
  const Index width = state.range(2);
  set_thread_count(static_cast<int>(state.range(4)));
  Rng rng(1);
  Transformer model({.layers = state.range(3), .dim = width, .heads = width / 16, .context = context}, rng);
  AdamW optimizer(model.parameters(), {.learning_rate = 1e-3});
  const Tensor tokens = random_tokens({batch, context}, rng);
  const Tensor targets = random_tokens({batch, context}, rng);
  Tape tape;
  const auto step = [&] {
    tape.reset();
    const Var loss = cross_entropy(model(tape, tokens), targets);
    tape.backward(loss, {.free_values = true});
    clip_gradient_norm(model.parameters(), 1.0);
    optimizer.step();
    return loss.item();
  };
  step();
  step();
  const std::int64_t before = pool::statistics().system_allocations;
  for (auto _ : state) benchmark::DoNotOptimize(step());
  state.counters["system_allocations"] = static_cast<double>(pool::statistics().system_allocations - before);
  state.counters["tokens_per_second"] =
      benchmark::Counter(static_cast<double>(batch * context), benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK(training_step)
    ->Args({8, 16, 32, 2, 1})
    ->Args({16, 32, 64, 4, 1})
    ->Args({16, 64, 128, 6, 1})
    ->Args({8, 128, 256, 6, 1})
    ->Args({8, 16, 32, 2, 2})
    ->Args({16, 32, 64, 4, 2})
    ->Args({16, 64, 128, 6, 2})
    ->Args({8, 128, 256, 6, 2})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
