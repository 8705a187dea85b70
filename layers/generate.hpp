#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <jnorm/core/random.hpp>
#include <jnorm/layers/transformer.hpp>

namespace jnorm {

// How a token is drawn from logits: they are divided by the temperature, then top_k leaves the k most likely tokens,
// then top_p of these the nucleus, and what is left is drawn in its own proportions.
struct SamplingOptions {
  double temperature = 1.0;  // 0 takes the most likely token, the first of equals
  Index top_k = 0;           // 0, or more than there are: all
  // The nucleus is the smallest set of most likely tokens whose probabilities reach top_p (Holtzman et al. 2020); it
  // has at least one token. 1: all.
  double top_p = 1.0;
};

// One draw of the generator, or none at temperature 0. Throws Error(argument) on a temperature that is negative or not
// finite, a negative top_k, a top_p outside [0, 1] or no logits, and Error(non_finite) on logits that are NaN or
// infinite.
std::int32_t sample_token(std::span<const double> logits, const SamplingOptions& options, Rng& rng);

// What becomes of a sequence that fills the model's context.
enum class AtLimit {
  stop,  // it ends
  // The model goes on with the last tokens, the new one included, that fill half of its context (or its one position);
  // they stand at positions 0, 1, ... again. So a cache is computed anew once in half a context, and in between a token
  // costs what it did before.
  slide,
};

std::string to_string(AtLimit at_limit);
const std::vector<AtLimit>& at_limits();

struct GenerationOptions {
  SamplingOptions sampling = {};
  std::optional<AtLimit> at_limit = std::nullopt;   // unset: decoders slide, and what answers a source stops
  std::optional<std::int32_t> stop = std::nullopt;  // the token that ends a text, and is no part of it
  Index drawable = 0;  // only tokens below can be drawn, such as none of the special ones; 0: all
  bool cache = true;   // keep keys and values of earlier tokens; without, each token costs a pass over all
};

// What a model goes on from. A decoder of at_limit slide sees the last tokens alone if they exceed its context.
struct Prompt {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> source = {};  // of encoder-decoders; their tokens begin with BOS
};

// Why a text has no more tokens.
enum class GenerationEnd { count, stop_token, context };

std::string to_string(GenerationEnd end);

struct Generated {
  std::vector<std::int32_t> tokens;
  GenerationEnd end = GenerationEnd::count;
};

// At most `count` tokens that follow the prompt, one after the other; `observe` gets each as soon as it is drawn. The
// model is in evaluation mode meanwhile. The tokens are the same with a cache and without, but for rounding.
//
// Throws Error(argument) on an encoder, which has no next token; an empty prompt; a source that the model doesn't read,
// or none where it does; a token outside the vocabulary; more tokens than the context where the options say stop; slide
// beside a source; a negative count. Throws as sample_token does.
Generated generate(Transformer& model, const Prompt& prompt, Index count, const GenerationOptions& options, Rng& rng,
                   const std::function<void(std::int32_t)>& observe = {});

// Whether a model's tokens can be bytes, and after them the special ones that its kind needs. It may have more, such as
// padding, or those of the model that its training began with.
bool is_byte_level(const TransformerConfig& config);

struct GeneratedText {
  std::string bytes;
  GenerationEnd end = GenerationEnd::count;
};

// The same for a byte-level model, which draws bytes alone. An encoder-decoder reads the prompt as its source.
GeneratedText generate(Transformer& model, std::string_view prompt, Index count, const GenerationOptions& options,
                       Rng& rng, const std::function<void(char)>& observe = {});

}  // namespace jnorm
