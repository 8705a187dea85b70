#include <jnorm/layers/generate.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

constexpr Index kBytes = 256;

void check(std::span<const double> logits, const SamplingOptions& options) {
  expect(options.temperature >= 0.0 && std::isfinite(options.temperature),
         "sampling: the temperature must be 0 or positive and finite, but is {}", options.temperature);
  expect(options.top_k >= 0, "sampling: top_k must not be negative, but is {}", options.top_k);
  expect(!logits.empty(), "sampling: there are no logits to draw from");
  for (const double logit : logits) {
    if (!std::isfinite(logit)) fail(ErrorKind::non_finite, "sampling: a logit is {}, so no token can be drawn", logit);
  }
}

// The tokens that may be drawn, the most likely first, of equals the lower one.
std::vector<std::size_t> candidates(std::span<const double> logits, Index top_k) {
  std::vector<std::size_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), std::size_t{0});
  std::stable_sort(tokens.begin(), tokens.end(), [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  if (top_k > 0 && top_k < static_cast<Index>(tokens.size())) tokens.resize(static_cast<std::size_t>(top_k));
  return tokens;
}

// The logits of the token after the last one: those of the first `count` of the vocabulary.
std::vector<double> next_logits(Transformer& model, Tape& tape, std::span<const std::int32_t> sequence, Index count) {
  tape.reset();
  const auto length = static_cast<Index>(sequence.size());
  const std::vector<double> logits = model(tape, indices({1, length}, sequence)).value().values();  // [1, T, V]
  const auto begin = logits.end() - model.config().vocabulary;
  return {begin, begin + count};
}

// Draws from the first `drawable` tokens of the vocabulary alone.
std::vector<std::int32_t> generate_below(Index drawable, Transformer& model, std::span<const std::int32_t> prompt,
                                         Index count, const SamplingOptions& options, Rng& rng,
                                         const std::function<void(std::int32_t)>& observe) {
  expect(!prompt.empty(), "generate: the prompt is empty: expected at least one token to go on from");
  expect(count >= 0, "generate: the number of tokens must not be negative, but is {}", count);
  const Index vocabulary = model.config().vocabulary;
  for (const std::int32_t token : prompt) {
    expect(token >= 0 && token < vocabulary, "generate: the prompt's token {} is outside the model's vocabulary of {}",
           token, vocabulary);
  }

  const auto context = static_cast<std::size_t>(model.config().context);
  std::vector<std::int32_t> sequence(prompt.begin(), prompt.end());
  Tape tape;
  for (Index i = 0; i < count; ++i) {
    const std::span<const std::int32_t> window = std::span(sequence).last(std::min(sequence.size(), context));
    sequence.push_back(sample_token(next_logits(model, tape, window, drawable), options, rng));
    if (observe) observe(sequence.back());
  }
  return {sequence.begin() + static_cast<Index>(prompt.size()), sequence.end()};
}

}  // namespace

bool is_byte_level(const TransformerConfig& config) {
  return config.vocabulary == kBytes || config.vocabulary == kBytes + 1;
}

std::int32_t sample_token(std::span<const double> logits, const SamplingOptions& options, Rng& rng) {
  check(logits, options);
  if (options.temperature == 0.0) {
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  const std::vector<std::size_t> tokens = candidates(logits, options.top_k);
  // Differences to the largest logit are never positive, so that no temperature, however small, overflows.
  std::vector<double> cumulative;
  double total = 0.0;
  for (const std::size_t token : tokens) {
    total += std::exp((logits[token] - logits[tokens[0]]) / options.temperature);
    cumulative.push_back(total);
  }
  const double drawn = rng.uniform() * total;  // in (0, total]
  const auto chosen = std::lower_bound(cumulative.begin(), cumulative.end(), drawn) - cumulative.begin();
  return static_cast<std::int32_t>(tokens[static_cast<std::size_t>(chosen)]);
}

std::vector<std::int32_t> generate(Transformer& model, std::span<const std::int32_t> prompt, Index count,
                                   const SamplingOptions& options, Rng& rng,
                                   const std::function<void(std::int32_t)>& observe) {
  return generate_below(model.config().vocabulary, model, prompt, count, options, rng, observe);
}

std::string generate(Transformer& model, std::string_view prompt, Index count, const SamplingOptions& options, Rng& rng,
                     const std::function<void(char)>& observe) {
  expect(is_byte_level(model.config()), "generate: expected a byte-level model with a vocabulary of {}, but it has {}",
         kBytes, model.config().vocabulary);
  std::vector<std::int32_t> tokens;
  for (const char c : prompt) tokens.push_back(static_cast<unsigned char>(c));
  std::string text;
  generate_below(kBytes, model, tokens, count, options, rng, [&](std::int32_t token) {
    text.push_back(static_cast<char>(token));
    if (observe) observe(text.back());
  });
  return text;
}

}  // namespace jnorm
