// How long a training step takes on a GPU: forward, backward, clipping and AdamW of a GPT-like model, in float32.
//
//   step_benchmark
//
// Steps are queued without waiting. In the steady state a step must neither wait for the device nor ask CUDA for
// memory: one is captured as a graph, which does not allow either.

#include <chrono>
#include <cstdio>

#include <fmt/format.h>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/cuda/device.hpp>
#include <jnorm/layers/clip.hpp>
#include <jnorm/layers/optimizer.hpp>
#include <jnorm/layers/transformer.hpp>

#include "cuda/benchmarks/graph_timer.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

struct Sizes {
  Index batch, context, width, layers;
};

Tensor random_tokens(const Shape& shape, Rng& rng, Device device) {
  Tensor tokens = Tensor::uninitialized(shape, DType::int32);
  auto* const token = tokens.output_data<std::int32_t>();
  for (Index i = 0; i < tokens.size(); ++i) token[i] = static_cast<std::int32_t>(rng.below(256));
  return tokens.to(device);
}

// Heads are 16 columns wide, as in the CPU's benchmark.
TransformerConfig config_of(const Sizes& sizes) {
  TransformerConfig config = default_config(Architecture::plain);
  config.layers = sizes.layers;
  config.dim = sizes.width;
  config.heads = config.dim / 16;
  config.context = sizes.context;
  return config;
}

Transformer& moved(Transformer& model, Device device) {
  model.to(device);
  return model;
}

class Training {
 public:
  Training(const Sizes& sizes, Device device)
      : rng_(1),
        model_(config_of(sizes), rng_),
        optimizer_(moved(model_, device).parameters(), {.learning_rate = 1e-3}),
        tokens_(random_tokens({sizes.batch, sizes.context}, rng_, device)),
        targets_(random_tokens({sizes.batch, sizes.context}, rng_, device)) {}

  void step() {
    tape_.reset();
    const Var loss = cross_entropy(model_(tape_, tokens_), targets_);
    tape_.backward(loss, {.free_values = true});
    queue_clip_gradient_norm(model_.parameters(), 1.0);
    optimizer_.step();
  }

 private:
  Rng rng_;
  Transformer model_;
  AdamW optimizer_;
  Tensor tokens_, targets_;
  Tape tape_;
};

// The median of five rounds.
template <class F>
double microseconds_of(Device device, int steps, const F& step) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> rounds(5);
  for (double& round : rounds) {
    cuda::synchronize(device);
    const auto start = Clock::now();
    for (int i = 0; i < steps; ++i) step();
    cuda::synchronize(device);
    round = std::chrono::duration<double, std::micro>(Clock::now() - start).count() / steps;
  }
  std::nth_element(rounds.begin(), rounds.begin() + 2, rounds.end());
  return rounds[2];
}

// Prints a line. Whether the step neither waits nor allocates.
bool report(Device device, const Sizes& sizes) {
  Training training(sizes, device);
  for (int i = 0; i < 5; ++i) training.step();
  const std::int64_t before = cuda::memory_statistics(device).system_allocations;
  const double time = microseconds_of(device, 20, [&] { training.step(); });
  const std::int64_t allocations = cuda::memory_statistics(device).system_allocations - before;
  std::string waits = "no waiting";
  std::size_t kernels = 0;
  try {
    kernels = Graph(cuda::context_of(zeros({}, DType::float32, device)), [&] { training.step(); }).nodes();
  } catch (const std::exception& error) {
    waits = error.what();
  }
  const bool steady = allocations == 0 && kernels > 0;
  fmt::print("training_step float32 {}x{}x{}x{} {:.1f} {} {} allocations, {} launches, {}\n", sizes.batch,
             sizes.context, sizes.width, sizes.layers, time, steady ? "pass" : "FAIL", allocations, kernels, waits);
  std::fflush(stdout);
  return steady;
}

}  // namespace

int main() {
  if (const std::string reason = cuda::why_none(); !reason.empty()) {
    fmt::print("SKIP: {}\n", reason);
    return 0;
  }
  try {
    const Device device = cuda::device(0);
    bool steady = true;
    for (const Sizes& sizes : {Sizes{16, 64, 128, 6}, Sizes{32, 256, 512, 12}})
      steady = report(device, sizes) && steady;
    return steady ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "step_benchmark: {}\n", error.what());
    return 2;
  }
}
