#pragma once

// What a model learns from an example: what it reads of it, and what it has to say. Each kind of model has its own
// objective. On the task "reverse", with the separator |, and . where the loss doesn't look:
//
//                  reads                        says
//   next_token     3 1 2 | 2 1                  . . . 2 1 3           decoders: at every position what comes next
//   masked         3 1 2 | M M M                . . . . 2 1 3         encoders: what stands where M (MASK) hides it
//   translation    3 1 2 (source)  B 2 1        2 1 3                 encoder-decoders: the source's answer; B (BOS)
//   begins it
//
// Of a text, which has no prompt, next_token says everything but the first token, translation the second half, and
// masked what was hidden of it: of the positions 15%, and of those 80% show MASK, 10% a random token, and 10% the right
// one, so that a model can trust none. (Devlin and others 2019, section 3.1.)

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <jnorm/core/random.hpp>

namespace jnorm {

enum class ModelKind;  // layers/transformer_config.hpp

enum class Objective { next_token, masked, translation };

Objective objective_of(ModelKind kind);

struct ObjectiveOptions {
  Objective objective = Objective::next_token;
  double mask_fraction = 0.15;  // of a text's positions; of masked
};

// A piece of data.
struct Example {
  std::vector<std::int32_t> prompt = {};                 // what is given; of a text: nothing
  std::optional<std::int32_t> separator = std::nullopt;  // what ends it, for those that read prompt and answer as one
  std::vector<std::int32_t> answer = {};                 // what is to be said; of a text: all of it
};

// How long its parts are.
struct ExampleSize {
  Index prompt = 0;
  bool separator = false;
  Index answer = 0;
};

// What a model reads of an example, and what it has to say: kIgnoreIndex where the loss shall not look.
struct ModelExample {
  std::vector<std::int32_t> tokens = {};
  std::vector<std::int32_t> targets = {};  // as many
  std::vector<std::int32_t> source = {};   // of translation alone
};

struct ModelExampleSize {
  Index tokens = 0;
  Index source = 0;
};

// The tokens that a model needs beside the data's own ones. They are numbered after those.
struct SpecialTokens {
  std::optional<std::int32_t> mask = std::nullopt;     // MASK, of masked
  std::optional<std::int32_t> begin = std::nullopt;    // BOS, of translation
  std::optional<std::int32_t> padding = std::nullopt;  // PAD, where sequences differ in length

  Index count() const { return mask.has_value() + begin.has_value() + padding.has_value(); }
};

SpecialTokens special_tokens(Objective objective, Index own_vocabulary, bool lengths_vary);

// The example as the objective has it. Draws from `rng` only what masked hides of a text: at least one position, and
// otherwise the share of them that mask_fraction says, rounded.
ModelExample model_example(const Example& example, const ObjectiveOptions& options, Index own_vocabulary, Rng& rng);
ModelExampleSize model_example_size(const ExampleSize& example, Objective objective);

// How many tokens of a text make a sequence of `length`: length + 1, length or 2 length.
Index window_length(Objective objective, Index length);

}  // namespace jnorm
