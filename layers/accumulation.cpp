#include <jnorm/layers/accumulation.hpp>

#include <algorithm>
#include <cmath>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/layers/metrics.hpp>

namespace jnorm {

Var summed_loss(const Var& logits, const Batch& batch, double label_smoothing) {
  return cross_entropy(logits, batch.targets.to(logits.value().device()),
                       {.label_smoothing = label_smoothing, .reduction = Reduction::sum});
}

StepLoss accumulate_gradients(Tape& tape, std::span<const Batch> micro_batches,
                              const std::function<Var(const Batch&)>& logits_of, const AccumulationOptions& options) {
  Index targets = 0;
  for (const Batch& batch : micro_batches) targets += count_targets(batch.targets);
  const auto divisor = static_cast<double>(std::max<Index>(targets, 1));

  StepLoss step;
  for (const Batch& batch : micro_batches) {
    tape.reset();
    step.last = summed_loss(logits_of(batch), batch, options.label_smoothing);
    const Tensor& loss = step.last.value();
    // A device is asked for the loss behind the backward sweep, so that it isn't waited for in between.
    const bool known = loss.device() == Device::cpu();
    if (known) step.mean += loss.item() / divisor;
    if (!std::isfinite(step.mean)) break;
    tape.backward(step.last, {.cotangent = full({}, options.scale / divisor, loss.dtype(), loss.device())});
    if (!known) step.mean += loss.item() / divisor;
    if (!std::isfinite(step.mean)) break;
  }
  return step;
}

}  // namespace jnorm
