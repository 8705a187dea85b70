#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <jnorm/layers/data_source.hpp>
#include <jnorm/layers/parameter_groups.hpp>
#include <jnorm/layers/schedule.hpp>
#include <jnorm/layers/transformer.hpp>

namespace jnorm {

enum class OptimizerKind { sgd, adam, adamw };

std::string to_string(OptimizerKind kind);
OptimizerKind optimizer_kind_from_string(std::string_view name);  // throws Error(argument) that lists the names

// How a model is trained, and on what.
struct TrainingConfig {
  std::string task = {};             // the name of a built-in task, or empty: a text
  std::string text = {};             // the text's path, or empty: the fortunes that a Debian package installs
  Index task_length = 6;             // symbols of copy, reverse and sort
  Index task_min_length = 0;         // if positive, their number differs from here to task_length
  Index task_symbols = 12;           // how many different ones
  Index modulus = 97;                // of modular_addition
  Index sequence_length = 0;         // of a text's sequences; 0: the model's context
  Index min_length = 0;              // if positive, a text's sequences differ in length from here on
  double mask_fraction = 0.15;       // of a text's tokens, hidden from a model that says what is hidden
  Index vocabulary = 0;              // of the model; 0: as many tokens as the data have
  double validation_fraction = 0.1;  // of a text, or of modular_addition's pairs; 0: nothing is held out

  std::string from = {};  // the path of a model whose weights the run begins with, or empty: random ones
  Index steps = 1000;
  Index batch = 16;      // sequences that go through the model at once
  Index accumulate = 1;  // batches a step, whose gradients are those of one joint batch
  std::uint64_t seed = 1;

  OptimizerKind optimizer = OptimizerKind::adamw;
  double learning_rate = 1e-3;
  Decay decay = Decay::cosine;
  Index warmup_steps = 0;
  double momentum = 0.0;  // of sgd
  double beta1 = 0.9;     // this and the next two: of adam and adamw
  double beta2 = 0.98;
  double adam_eps = 1e-8;
  double weight_decay = 0.01;
  double label_smoothing = 0.0;  // of the loss that is trained, and not of a validation loss
  // Of a step's whole gradient, in this order; 0: it isn't clipped.
  double clip_value = 0.0;
  double clip_norm = 1.0;

  // Patterns over parameters' paths, separated by commas; see fits_pattern.
  std::string freeze = {};                // don't train
  std::string no_decay = {};              // don't decay
  std::string learning_rate_scales = {};  // "blocks.0.*=0.1,head.*=2"; where several fit, the last one holds

  double loss_scale = 0.0;           // to begin with; 0: 65536 where activations are float16, none elsewhere
  Index loss_scale_interval = 2000;  // steps without an overflow after which it doubles
  double loss_scale_minimum = 1.0;   // may be below 1

  Index evaluation_interval = 100;  // in steps; 0: only after the last
  Index evaluation_batches = 4;
  Index patience = 0;               // evaluations without a better validation loss, after which a run stops; 0: never
  Index checkpoint_interval = 100;  // in steps; 0: only after the last

  std::vector<std::string> frozen_patterns() const;
  std::vector<ParameterGroup> parameter_groups() const;  // throws Error(argument) on a scale that is no number
  Schedule schedule() const;
  // Throws Error(argument), one line: "learning-rate: expected a finite number that isn't negative, got nan".
  void validate() const;
};

// A run, completely: with the same text, the same configuration gives the same bits.
struct RunConfig {
  TransformerConfig model = {};
  TrainingConfig training = {};

  void validate() const;
};

// The data that a run trains on, as its kind of model reads them. They decide the model's vocabulary, unless the run
// does, and a task the context, unless the model was trained before. Throws as Text, TextData and make_task do.
std::unique_ptr<DataSource> make_data(const RunConfig& config);

}  // namespace jnorm
