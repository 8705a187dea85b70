// One training step of a Transformer, the plain decoder and each architecture: forward, backward, gradient clipping and
// AdamW.

#include <string>

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

// An encoder has to say every seventh token, about the 15% of BERT; the others all.
Tensor random_targets(const Shape& shape, ModelKind kind, Rng& rng) {
  Tensor targets = random_tokens(shape, rng);
  auto* const target = targets.mutable_data<std::int32_t>();
  for (Index i = 0; kind == ModelKind::encoder && i < targets.size(); ++i) {
    if (i % 7 != 0) target[i] = kIgnoreIndex;
  }
  return targets;
}

// Arguments: batch, context, width, layers, threads. Heads are 16 columns wide.
void training_step(benchmark::State& state, Architecture architecture) {
  const Index batch = state.range(0);
  const Index context = state.range(1);
  set_thread_count(static_cast<int>(state.range(4)));
  Rng rng(1);
  TransformerConfig config = default_config(architecture);
  config.layers = state.range(3);
  config.dim = state.range(2);
  config.heads = config.dim / 16;
  config.context = context;
  Transformer model(config, rng);
  AdamW optimizer(model.parameters(), {.learning_rate = 1e-3});
  ModelInput input{.tokens = random_tokens({batch, context}, rng)};
  if (config.kind == ModelKind::encoder_decoder) input.source = random_tokens({batch, context}, rng);
  const Tensor targets = random_targets({batch, context}, config.kind, rng);
  Tape tape;
  const auto step = [&] {
    tape.reset();
    const Var loss = cross_entropy(model(tape, input), targets);
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

const bool kRegistered = [] {
  for (const Architecture architecture : architectures()) {
    const bool plain = architecture == Architecture::plain;
    const std::string name = plain ? "training_step" : to_string(architecture) + "_training_step";
    benchmark::internal::Benchmark* const steps =
        benchmark::RegisterBenchmark(name.c_str(), training_step, architecture);
    for (const int threads : {1, 2}) {
      steps->Args({8, 16, 32, 2, threads})
          ->Args({16, 32, 64, 4, threads})
          ->Args({16, 64, 128, 6, threads})
          ->Args({8, 128, 256, 6, threads});
    }
    steps->UseRealTime()->Unit(benchmark::kMicrosecond);
  }
  return true;
}();

}  // namespace
