#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <jnorm/core/tensor.hpp>
#include <jnorm/layers/model_input.hpp>

namespace jnorm {

// How a model does on held-out data.
struct Evaluation {
  double loss = 0.0;      // the mean over all targets
  double accuracy = 0.0;  // the share of targets that the model finds the most likely token
};

// The best validation loss so far.
struct BestEvaluation {
  double loss = 0.0;
  Index step = 0;
  Index evaluations_since = 0;  // that were no better

  friend bool operator==(const BestEvaluation&, const BestEvaluation&) = default;
};

// Of a step whose loss was scaled.
struct LossScaling {
  double scale = 0.0;    // of this step
  bool skipped = false;  // the gradients overflowed: the step changed neither weights nor moments nor the schedule
  Index overflows = 0;   // of all steps so far
};

// What a training step reports.
struct StepMetrics {
  Index step = 0;              // 1 after the first
  double loss = 0.0;           // that was trained, smoothing included: the mean over its targets, before the update
  double learning_rate = 0.0;  // of its update
  double gradient_norm = 0.0;  // of all parameters together, before clipping; infinite if the step was skipped
  double seconds = 0.0;        // that it took
  // Tokens that were read; what fills up short sequences is none.
  double tokens_per_second = 0.0;
  std::optional<LossScaling> loss_scaling = std::nullopt;
  std::optional<Evaluation> validation = std::nullopt;  // at intervals, after the update
};

// One JSON object on one line, without its end. "seconds" and "tokens_per_second" are times and differ from run to run;
// the rest follows from the configuration. Numbers read back as the same bits; one that isn't finite is null.
std::string to_json_line(const StepMetrics& metrics);

// The lines of a metrics file that belong to the steps 1 .. `last_step`; a line that was cut off in writing is dropped.
// Throws Error(file) with `name_for_errors` and the line's number unless the lines are objects of the steps 1, 2, ...,
// and all of those are there.
std::string_view metrics_until(std::string_view lines, Index last_step, std::string_view name_for_errors);

// How many tokens a model reads, those of the source too, without what fills up short sequences.
Index count_tokens(const ModelInput& input);

// How many targets count in a loss: those that aren't kIgnoreIndex.
Index count_targets(const Tensor& targets);

// The share of the targets [...], kIgnoreIndex apart, at which logits [..., V] are largest. 0 if there are none.
double accuracy(const Tensor& logits, const Tensor& targets);

}  // namespace jnorm
