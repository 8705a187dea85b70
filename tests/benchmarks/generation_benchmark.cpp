// One token more, greedily, after so many that a cache holds already: what generation costs per token at that length.

#include <benchmark/benchmark.h>

#include <jnorm/core/parallel.hpp>
#include <jnorm/core/pool.hpp>
#include <jnorm/layers/evaluation_mode.hpp>
#include <jnorm/layers/generate.hpp>

using namespace jnorm;

namespace {

// Arguments: tokens in the cache, width, layers, threads. Heads are 16 columns wide; two of llama's share their keys.
void next_token(benchmark::State& state, Architecture architecture) {
  const Index length = state.range(0);
  set_thread_count(static_cast<int>(state.range(3)));
  TransformerConfig config = default_config(architecture);
  config.dim = state.range(1);
  config.heads = config.dim / 16;
  config.layers = state.range(2);
  config.context = length + 1;
  Transformer model(config, Rng(1));
  const EvaluationMode evaluation(model);
  Rng rng(1);
  KeyValueCache cache(config.context);
  Tape tape;
  const NoRecord no_record(tape);

  std::vector<std::int32_t> before(static_cast<std::size_t>(length));
  for (std::int32_t& token : before) token = static_cast<std::int32_t>(rng.below(config.vocabulary));
  model.stack(model.embed(tape, indices({1, length}, before)), model.begin_pass(tape, {}, cache));
  std::int32_t token = 0;
  const auto step = [&] {
    tape.reset();
    const Var logits = model(tape, {.tokens = indices({1, 1}, std::span(&token, 1))}, cache);
    token = sample_token(logits.value().values(), {.temperature = 0.0}, rng);
    cache.truncate(length);
  };
  step();
  const std::int64_t system_allocations = pool::statistics().system_allocations;
  for (auto _ : state) step();
  state.counters["system_allocations"] =
      static_cast<double>(pool::statistics().system_allocations - system_allocations);
  state.counters["tokens_per_second"] = benchmark::Counter(1, benchmark::Counter::kIsIterationInvariantRate);
}

void next_token_gpt2(benchmark::State& state) { next_token(state, Architecture::gpt2); }
void next_token_llama(benchmark::State& state) { next_token(state, Architecture::llama); }

void lengths_and_sizes(benchmark::internal::Benchmark* benchmark) {
  for (const Index width : {64, 256}) {
    for (const Index length : {64, 256, 1024, 4096}) benchmark->Args({length, width, 6, 1});
  }
  benchmark->UseRealTime()->Unit(benchmark::kMicrosecond);
}

BENCHMARK(next_token_gpt2)->Apply(lengths_and_sizes);
BENCHMARK(next_token_llama)->Apply(lengths_and_sizes);

}  // namespace
