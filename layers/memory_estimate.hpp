#pragma once

#include <jnorm/layers/run_config.hpp>

namespace jnorm {

// How many numbers a model's matrices hold, from the configuration alone: those of its parameters but for gains and
// biases. In double, since sizes that are legal one by one have products beyond 64 bits.
double count_matrix_weights(const TransformerConfig& config);

// How many bytes a model or its training needs at the least, from the configuration alone, before anything is made.
// Small parts, as gains, biases and working
// memory, are left out, so the truth is some percent above.
struct MemoryEstimate {
  double weights = 0.0;
  double gradients = 0.0;
  double optimizer = 0.0;    // moments
  double activations = 0.0;  // what backward needs of one batch
  double jacobians = 0.0;    // of a measurement

  double total() const { return weights + gradients + optimizer + activations + jacobians; }
};

MemoryEstimate estimate_memory(const TransformerConfig& config);  // of its weights alone
MemoryEstimate estimate_memory(const RunConfig& config);          // of a training step

// Throws Error(argument), one line with both numbers, if the machine's memory is smaller.
void expect_to_fit(const MemoryEstimate& estimate);

}  // namespace jnorm
