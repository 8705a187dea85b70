#pragma once

#include <functional>
#include <span>

#include <jnorm/autograd/tape.hpp>
#include <jnorm/layers/data_source.hpp>

namespace jnorm {

struct AccumulationOptions {
  double label_smoothing = 0.0;  // in [0, 1)
  double scale = 1.0;            // times the gradients, and not the mean that is returned
};

struct StepLoss {
  double mean = 0.0;
  Var last;  // of the last micro-batch, on the tape
};

// Adds to the parameters' gradients that of a step's loss: the mean over the targets of all micro-batches together,
// whichever of them they stand in; so 0, with zero gradients, if there is no target at all. Each micro-batch goes
// through the tape for itself, which holds the last one afterwards. `logits_of` records the model on it.
//
// If the loss of a micro-batch isn't finite, it is returned before its backward; the tape holds that micro-batch then,
// and the gradients are incomplete. A device tells after its backward, so there they aren't finite either.
StepLoss accumulate_gradients(Tape& tape, std::span<const Batch> micro_batches,
                              const std::function<Var(const Batch&)>& logits_of,
                              const AccumulationOptions& options = {});

// The sum of a batch's losses, as accumulate_gradients records it.
Var summed_loss(const Var& logits, const Batch& batch, double label_smoothing);

}  // namespace jnorm
