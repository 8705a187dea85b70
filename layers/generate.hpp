#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <jnorm/core/random.hpp>
#include <jnorm/layers/transformer.hpp>

namespace jnorm {

struct SamplingOptions {
  double temperature = 1.0;  // divides the logits; 0 takes the most likely token, the first of equals
  Index top_k = 0;           // only the k most likely tokens can be drawn; 0, or more than there are: all
};

// A token drawn from softmax(logits / temperature). One draw of the generator, or none at temperature 0. Throws
// Error(argument) on a temperature that is negative or not finite, a negative top_k or no logits, and Error(non_finite)
// on logits that are NaN or infinite.
std::int32_t sample_token(std::span<const double> logits, const SamplingOptions& options, Rng& rng);

// `count` tokens that follow the prompt, one after the other; `observe` gets each as soon as it is drawn. A model sees
// at most its context: of a longer sequence the last T tokens, which stand at positions 0 .. T - 1 again. Throws
// Error(argument) on an empty prompt, a token outside the vocabulary or a negative count, and as sample_token does.
std::vector<std::int32_t> generate(Transformer& model, std::span<const std::int32_t> prompt, Index count,
                                   const SamplingOptions& options, Rng& rng,
                                   const std::function<void(std::int32_t)>& observe = {});

// Whether a model's tokens are bytes, and perhaps a last one that fills up short sequences.
bool is_byte_level(const TransformerConfig& config);

// The same for a byte-level model. It draws bytes alone.
std::string generate(Transformer& model, std::string_view prompt, Index count, const SamplingOptions& options, Rng& rng,
                     const std::function<void(char)>& observe = {});

}  // namespace jnorm
