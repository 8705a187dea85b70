#include <jnorm/layers/memory_estimate.hpp>

#include <iterator>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/physical_memory.hpp>

namespace jnorm {

namespace {

// What a block holds beside its numbers: modules, parameters and their names. (Measured with dim 1: about 9 kB.)
constexpr double kBlockOverhead = 4000.0;

// The sizes of one block, in double.
struct BlockSize {
  double dim, queries, keys, ffn;
  double branches_in, attentions;  // matrices into the feed-forward branch; attention branches a block

  double weights() const { return attentions * 2.0 * dim * (queries + keys) + (branches_in + 1.0) * dim * ffn; }
  // Numbers a position that a derivative reads: norm, q, k, v, attention, sum; norm, inner values, activation, sum.
  double activations() const { return attentions * (2.0 * dim + 2.0 * (queries + keys)) + 2.0 * dim + 2.0 * ffn; }
};

BlockSize block_size(const TransformerConfig& config, bool reads_encoder) {
  const auto width = static_cast<double>(config.head_width());
  return {.dim = static_cast<double>(config.dim),
          .queries = static_cast<double>(config.heads) * width,
          .keys = static_cast<double>(config.key_head_count()) * width,
          .ffn = static_cast<double>(config.ffn_width()),
          .branches_in = config.gated ? 2.0 : 1.0,
          .attentions = reads_encoder ? 2.0 : 1.0};
}

// Of all blocks together, an encoder's and a decoder's.
template <class Measure>
double over_blocks(const TransformerConfig& config, const Measure& measure) {
  const bool both = config.kind == ModelKind::encoder_decoder;
  return static_cast<double>(config.encoder_layer_count()) * measure(block_size(config, false)) +
         static_cast<double>(config.decoder_layer_count()) * measure(block_size(config, both));
}

// Numbers of the table of sines and cosines, which is no parameter.
double count_sinusoids(const TransformerConfig& config) {
  if (config.positions != Positions::sinusoidal) return 0.0;
  return static_cast<double>(config.context) * static_cast<double>(config.dim);
}

// How many numbers an optimizer keeps for each weight.
double moments(const TrainingConfig& training) {
  if (training.optimizer != OptimizerKind::sgd) return 2.0;
  return training.momentum > 0.0 ? 1.0 : 0.0;
}

std::string in_words(double bytes) {
  constexpr const char* units[] = {"MB", "GB", "TB", "PB", "EB"};
  double value = bytes / 1e6;
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(units); ++unit) value /= 1000.0;
  return fmt::format("{:.3g} {}", value, units[unit]);
}

}  // namespace

double count_matrix_weights(const TransformerConfig& config) {
  const auto dim = static_cast<double>(config.dim), vocabulary = static_cast<double>(config.vocabulary);
  const double tables = (config.tied_embedding ? 1.0 : 2.0) * vocabulary;
  const double positions = config.positions == Positions::learned ? static_cast<double>(config.context) : 0.0;
  const double head = config.head_transform ? dim : 0.0;
  return (tables + positions + head) * dim +
         over_blocks(config, [](const BlockSize& block) { return block.weights(); });
}

MemoryEstimate estimate_memory(const TransformerConfig& config) {
  const double blocks = over_blocks(config, [](const BlockSize& /*block*/) { return 1.0; });
  return {.weights =
              (count_matrix_weights(config) + count_sinusoids(config)) * static_cast<double>(size_of(config.dtype)) +
              blocks * kBlockOverhead};
}

MemoryEstimate estimate_memory(const RunConfig& config) {
  const TransformerConfig& model = config.model;
  MemoryEstimate estimate = estimate_memory(model);
  // How much of it trains, patterns say; without any gradient at all it is still the least.
  const bool all_train = config.training.freeze.empty();
  estimate.gradients = all_train ? count_matrix_weights(model) * static_cast<double>(size_of(model.dtype)) : 0.0;
  estimate.optimizer = moments(config.training) * estimate.gradients;
  const double positions = static_cast<double>(config.training.batch) * static_cast<double>(model.context);
  const double hidden = over_blocks(model, [](const BlockSize& block) { return block.activations(); });
  const auto logits = static_cast<double>(model.vocabulary) * static_cast<double>(size_of(model.dtype));
  estimate.activations = positions * (hidden * static_cast<double>(size_of(model.activation_dtype())) + logits);
  return estimate;
}

void expect_to_fit(const MemoryEstimate& estimate) {
  const auto memory = static_cast<double>(physical_memory());
  if (estimate.total() <= memory) return;
  std::string parts;
  const auto add = [&](const char* name, double bytes) {
    if (bytes > 0.0) parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", name, in_words(bytes));
  };
  add("weights", estimate.weights);
  add("gradients", estimate.gradients);
  add("the optimizer", estimate.optimizer);
  add("activations", estimate.activations);
  add("Jacobians", estimate.jacobians);
  fail(ErrorKind::argument, "memory: this needs at least {} ({}), but the machine has {}; make the sizes smaller",
       in_words(estimate.total()), parts, in_words(memory));
}

}  // namespace jnorm
