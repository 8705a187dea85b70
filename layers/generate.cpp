#include <jnorm/layers/generate.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/expect.hpp>
#include <jnorm/layers/evaluation_mode.hpp>
#include <jnorm/layers/names.hpp>
#include <jnorm/layers/objective.hpp>

namespace jnorm {

namespace {

using Tokens = std::vector<std::int32_t>;

constexpr Index kBytes = 256;

constexpr Named<AtLimit> kAtLimits[] = {{"stop", AtLimit::stop}, {"slide", AtLimit::slide}};

constexpr Named<GenerationEnd> kEnds[] = {
    {"count", GenerationEnd::count}, {"stop", GenerationEnd::stop_token}, {"context", GenerationEnd::context}};

void check(std::span<const double> logits, const SamplingOptions& options) {
  expect(options.temperature >= 0.0 && std::isfinite(options.temperature),
         "sampling: the temperature must be 0 or positive and finite, but is {}", options.temperature);
  expect(options.top_k >= 0, "sampling: top_k must not be negative, but is {}", options.top_k);
  expect(options.top_p >= 0.0 && options.top_p <= 1.0, "sampling: top_p must lie in [0, 1], but is {}", options.top_p);
  expect(!logits.empty(), "sampling: there are no logits to draw from");
  for (const double logit : logits) {
    if (!std::isfinite(logit)) fail(ErrorKind::non_finite, "sampling: a logit is {}, so no token can be drawn", logit);
  }
}

// The tokens that top_k leaves. If it or top_p asks which are the most likely, those come first, of equals the lower.
Tokens candidates(std::span<const double> logits, const SamplingOptions& options) {
  Tokens tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const Index count = static_cast<Index>(tokens.size());
  const Index left = options.top_k == 0 ? count : std::min(options.top_k, count);
  if (left == count && options.top_p == 1.0) return tokens;
  const auto logit = [&](std::int32_t token) { return logits[static_cast<std::size_t>(token)]; };
  std::partial_sort(tokens.begin(), tokens.begin() + left, tokens.end(),
                    [&](std::int32_t a, std::int32_t b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
  tokens.resize(static_cast<std::size_t>(left));
  return tokens;
}

// The tokens that the model sees, which stand at positions 0, 1, ..., and what it computed of them.
class Window {
 public:
  Window(Transformer& model, const Prompt& prompt, Index room, bool cached)
      : model_(model), tokens_(prompt.tokens), cached_(cached), cache_(cached ? std::min(room, context()) : 0) {
    if (!prompt.source.empty()) source_ = indices({1, static_cast<Index>(prompt.source.size())}, prompt.source);
    if (size() > context()) keep_last(context());
  }

  bool full() const { return size() == context(); }

  // Slides if it is full.
  void append(std::int32_t token) {
    if (full()) keep_last(std::max<Index>(1, context() / 2) - 1);
    tokens_.push_back(token);
  }

  // The logits of the token after the last one: those of the first `count` of the vocabulary.
  std::vector<double> next_logits(Index count) {
    tape_.reset();
    const NoRecord no_record(tape_);
    const Index seen = cached_ ? cache_.length() : 0;
    ModelInput input{.tokens = indices({1, size() - seen}, std::span(tokens_).subspan(static_cast<std::size_t>(seen)))};
    if (seen == 0) input.source = source_;
    const Pass pass = cached_ ? model_.begin_pass(tape_, input, cache_) : model_.begin_pass(tape_, input);
    const Var x = model_.stack(model_.embed(tape_, input.tokens, pass), pass);  // [1, T, W]
    const Var logits = model_.unembed(slice(x, 1, {.start = -1}), pass);        // [1, 1, V]
    return slice(logits, 2, {.stop = count}).value().values();
  }

 private:
  Index size() const { return static_cast<Index>(tokens_.size()); }
  Index context() const { return model_.config().context; }
  void keep_last(Index count) {
    tokens_.erase(tokens_.begin(), tokens_.end() - count);
    cache_.clear();  // positions changed
  }

  Transformer& model_;
  Tokens tokens_;
  Tensor source_;
  bool cached_;
  KeyValueCache cache_;
  Tape tape_;
};

void expect_tokens(const char* what, const Tokens& tokens, Index vocabulary) {
  for (const std::int32_t token : tokens) {
    expect(token >= 0 && token < vocabulary, "generate: the {}'s token {} is outside the model's vocabulary of {}",
           what, token, vocabulary);
  }
}

void expect_decoder(const TransformerConfig& config) {
  expect(
      config.kind != ModelKind::encoder,
      "generate: an encoder says what stands where a token is hidden, and has no next token; expected a model of kind "
      "decoder or encoder_decoder");
}

void expect_prompt(const TransformerConfig& config, const Prompt& prompt) {
  const bool reads_source = config.kind == ModelKind::encoder_decoder;
  expect(!reads_source || !prompt.source.empty(), "generate: the source is empty: expected at least one token to read");
  expect(reads_source || prompt.source.empty(), "generate: got a source, but a decoder reads none");
  expect(static_cast<Index>(prompt.source.size()) <= config.context,
         "generate: the source has {} tokens, but the context is {}", prompt.source.size(), config.context);
  expect(!prompt.tokens.empty(), "generate: the prompt is empty: expected at least one token to go on from");
  expect_tokens("source", prompt.source, config.vocabulary);
  expect_tokens("prompt", prompt.tokens, config.vocabulary);
}

// What happens at the limit, once it is clear that it can.
AtLimit checked_limit(const TransformerConfig& config, const Prompt& prompt, const GenerationOptions& options) {
  const bool reads_source = config.kind == ModelKind::encoder_decoder;
  const AtLimit at_limit = options.at_limit.value_or(reads_source ? AtLimit::stop : AtLimit::slide);
  expect(!reads_source || at_limit == AtLimit::stop,
         "generate: what answers a source begins with BOS and can't slide beyond the context; let it stop there");
  expect(at_limit == AtLimit::slide || static_cast<Index>(prompt.tokens.size()) <= config.context,
         "generate: the prompt has {} tokens, but the context is {}; shorten it, or let it slide", prompt.tokens.size(),
         config.context);
  return at_limit;
}

Tokens bytes_of(std::string_view text) {
  Tokens tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

}  // namespace

std::string to_string(AtLimit at_limit) { return name_of(kAtLimits, at_limit); }
const std::vector<AtLimit>& at_limits() {
  static const std::vector<AtLimit> all = values_of(kAtLimits);
  return all;
}

std::string to_string(GenerationEnd end) { return name_of(kEnds, end); }

std::int32_t sample_token(std::span<const double> logits, const SamplingOptions& options, Rng& rng) {
  check(logits, options);
  const auto most_likely = std::max_element(logits.begin(), logits.end());
  if (options.temperature == 0.0) return static_cast<std::int32_t>(most_likely - logits.begin());

  const Tokens tokens = candidates(logits, options);
  // Differences to the largest logit are never positive, so that no temperature, however small, overflows.
  std::vector<double> cumulative;
  cumulative.reserve(tokens.size());
  double total = 0.0;
  for (const std::int32_t token : tokens) {
    total += std::exp((logits[static_cast<std::size_t>(token)] - *most_likely) / options.temperature);
    cumulative.push_back(total);
  }
  if (options.top_p < 1.0) total = *std::lower_bound(cumulative.begin(), cumulative.end(), options.top_p * total);
  const double drawn = rng.uniform() * total;  // in (0, total]
  const auto chosen = std::lower_bound(cumulative.begin(), cumulative.end(), drawn) - cumulative.begin();
  return tokens[static_cast<std::size_t>(chosen)];
}

Generated generate(Transformer& model, const Prompt& prompt, Index count, const GenerationOptions& options, Rng& rng,
                   const std::function<void(std::int32_t)>& observe) {
  const TransformerConfig& config = model.config();
  expect_decoder(config);
  expect_prompt(config, prompt);
  expect(count >= 0, "generate: the number of tokens must not be negative, but is {}", count);
  expect(options.drawable >= 0 && options.drawable <= config.vocabulary,
         "generate: expected up to {} drawable tokens, got {}", config.vocabulary, options.drawable);
  const Index drawable = options.drawable == 0 ? config.vocabulary : options.drawable;
  const AtLimit at_limit = checked_limit(config, prompt, options);

  const EvaluationMode evaluation(model);
  const Index room = static_cast<Index>(prompt.tokens.size()) + std::min(count, config.context);
  Window window(model, prompt, room, options.cache);
  Generated result;
  while (static_cast<Index>(result.tokens.size()) < count) {
    if (!result.tokens.empty()) {
      if (window.full() && at_limit == AtLimit::stop) return {std::move(result.tokens), GenerationEnd::context};
      window.append(result.tokens.back());
    }
    const std::int32_t token = sample_token(window.next_logits(drawable), options.sampling, rng);
    if (token == options.stop) return {std::move(result.tokens), GenerationEnd::stop_token};
    result.tokens.push_back(token);
    if (observe) observe(token);
  }
  return result;
}

bool is_byte_level(const TransformerConfig& config) {
  return config.vocabulary >= kBytes + special_tokens(objective_of(config.kind), kBytes, false).count();
}

GeneratedText generate(Transformer& model, std::string_view prompt, Index count, const GenerationOptions& options,
                       Rng& rng, const std::function<void(char)>& observe) {
  const TransformerConfig& config = model.config();
  expect_decoder(config);
  expect(is_byte_level(config),
         "generate: expected a byte-level model, of {} tokens and its special ones, but its vocabulary has {}", kBytes,
         config.vocabulary);
  Prompt tokens{.tokens = bytes_of(prompt)};
  if (config.kind == ModelKind::encoder_decoder) {
    tokens = {.tokens = {*special_tokens(Objective::translation, kBytes, false).begin}, .source = tokens.tokens};
  }
  GenerationOptions of_bytes = options;
  of_bytes.drawable = kBytes;
  GeneratedText text;
  text.end = generate(model, tokens, count, of_bytes, rng, [&](std::int32_t token) {
               text.bytes.push_back(static_cast<char>(token));
               if (observe) observe(text.bytes.back());
             }).end;
  return text;
}

}  // namespace jnorm
