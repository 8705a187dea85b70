#include <jnorm/layers/key_value_cache.hpp>

#include <cmath>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <jnorm/core/error.hpp>
#include <jnorm/layers/evaluation_mode.hpp>
#include <jnorm/layers/transformer.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

constexpr Index kVocabulary = 11, kContext = 9;

// Decoders, and decoders beside an encoder.
std::vector<Architecture> generators() {
  std::vector<Architecture> all;
  for (const Architecture one : architectures()) {
    if (default_config(one).kind != ModelKind::encoder) all.push_back(one);
  }
  return all;
}

TransformerConfig small(Architecture architecture) {
  TransformerConfig config{.vocabulary = kVocabulary, .layers = 2, .dim = 16, .heads = 4, .context = kContext};
  config.dtype = DType::float64;
  apply_architecture(config, architecture);
  return config;
}

Tensor random_tokens(const Shape& shape, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::int32_t> values(static_cast<std::size_t>(shape.size()));
  for (std::int32_t& value : values) value = static_cast<std::int32_t>(rng.below(kVocabulary));
  return indices(shape, values);
}

// All parameters and buffers at random: gains and running statistics that are still 1 or 0 would hide a fault.
void randomize(Transformer& model) {
  Rng rng(3);
  NamedTensors state = model.state();
  for (auto& [name, tensor] : state) {
    std::vector<double> values = tensor.values();
    for (double& value : values) value += 0.1 * rng.normal();
    if (name.ends_with("running_variance")) {
      for (double& value : values) value = 0.5 + std::abs(value);
    }
    tensor = jnorm::tensor(tensor.shape(), values, tensor.dtype());
  }
  model.load_state(state);
}

ModelInput input_for(const Transformer& model, Index batch, Index length) {
  ModelInput input{.tokens = random_tokens({batch, length}, 1)};
  if (model.config().kind == ModelKind::encoder_decoder) {
    input.source = random_tokens({batch, 5}, 2);
    std::vector<std::int32_t> mask(static_cast<std::size_t>(batch * 5), 1);
    mask[4] = 0;  // the first source is shorter
    input.source_mask = indices({batch, 5}, mask);
  }
  return input;
}

std::vector<double> logits_at_once(Transformer& model, const ModelInput& input) {
  Tape tape;
  const NoRecord no_record(tape);
  return model(tape, input).value().values();
}

// The columns [from, to) of [B, T].
Tensor columns(const Tensor& tokens, Index from, Index to) {
  std::vector<std::int32_t> values;
  for (Index row = 0; row < tokens.dim(0); ++row) {
    for (Index t = from; t < to; ++t) values.push_back(tokens.data<std::int32_t>()[row * tokens.dim(1) + t]);
  }
  return indices({tokens.dim(0), to - from}, values);
}

// The same, where pieces of these lengths follow each other, each on a tape without the earlier ones. [B, T, V]
std::vector<double> logits_in_pieces(Transformer& model, const ModelInput& input, const std::vector<Index>& pieces,
                                     KeyValueCache& cache) {
  const Index batch = input.tokens.dim(0), length = input.tokens.dim(1);
  std::vector<double> all(static_cast<std::size_t>(batch * length * kVocabulary));
  Tape tape;
  const NoRecord no_record(tape);
  Index at = 0;
  for (const Index piece : pieces) {
    tape.reset();
    ModelInput next{.tokens = columns(input.tokens, at, at + piece)};
    if (at == 0) {
      next.source = input.source;
      next.source_mask = input.source_mask;
    }
    const std::vector<double> logits = model(tape, next, cache).value().values();
    for (Index row = 0; row < batch; ++row) {
      std::copy_n(logits.begin() + row * piece * kVocabulary, piece * kVocabulary,
                  all.begin() + (row * length + at) * kVocabulary);
    }
    at += piece;
  }
  return all;
}

// Relative to the largest logit, or absolute where that is below 1: a model without any norm reaches some thousand.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0.0, scale = 1.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (!(difference <= largest)) largest = difference;  // NaN too
    scale = std::max(scale, std::abs(a[i]));
  }
  return largest / scale;
}

constexpr double kTolerance = 1e-12;

void check_agreement(const TransformerConfig& config) {
  Transformer model(config, Rng(1));
  randomize(model);
  const EvaluationMode evaluation(model);
  for (const Index batch : {1, 3}) {
    const ModelInput input = input_for(model, batch, kContext);
    KeyValueCache cache;
    CHECK(largest_difference(logits_at_once(model, input), logits_in_pieces(model, input, {4, 1, 1, 2, 1}, cache)) <
          kTolerance);
  }
}

Tensor tokens(std::vector<std::int32_t> values) { return indices({1, static_cast<Index>(values.size())}, values); }

// A model in evaluation mode, and a tape that records nothing.
struct Evaluated {
  explicit Evaluated(Architecture architecture) : model(small(architecture), Rng(1)) { model.set_training(false); }

  Transformer model;
  Tape tape;
  NoRecord no_record{tape};
  KeyValueCache cache;
};

// [1, T, W], this number each.
Tensor rows_of(Index length, Index width, double value) { return full({1, length, width}, value, DType::float64); }

}  // namespace

TEST_CASE("cache: with and without it, the logits of every decoder with every placement and norm agree") {
  for (const Architecture architecture : generators()) {
    for (const Placement* placement : Placement::all()) {
      for (const NormKind norm : norm_kinds()) {
        TransformerConfig config = small(architecture);
        config.placement = *placement;
        config.norm = norm;
        CAPTURE(fmt::format("{} {} {}", to_string(architecture), placement->name, to_string(norm)));
        check_agreement(config);
      }
    }
  }
}

TEST_CASE("cache: a prompt that is read at once is masked as without a cache") {
  Evaluated e(Architecture::gpt2);
  const ModelInput input{.tokens = random_tokens({1, 6}, 1)};
  CHECK(logits_in_pieces(e.model, input, {6}, e.cache) == logits_at_once(e.model, input));
}

TEST_CASE("cache: a source that is masked as a whole is no source, with and without a cache") {
  Evaluated e(Architecture::vanilla);
  ModelInput input{.tokens = tokens({1, 2, 3}), .source = tokens({4, 5}), .source_mask = tokens({0, 0})};
  const std::vector<double> at_once = logits_at_once(e.model, input);
  CHECK(std::isfinite(at_once[0]));
  CHECK(largest_difference(at_once, logits_in_pieces(e.model, input, {2, 1}, e.cache)) < kTolerance);
  input.source = tokens({6, 7});
  CHECK(logits_at_once(e.model, input) == at_once);
}

TEST_CASE("cache: tokens beyond the context are refused, and the cache stays as it was") {
  Evaluated e(Architecture::llama);
  e.model(e.tape, {.tokens = random_tokens({1, kContext}, 1)}, e.cache);
  CHECK_THROWS_WITH_AS(e.model(e.tape, {.tokens = tokens({1})}, e.cache),
                       doctest::Contains("the sequences have 10 tokens, but the context is 9"), Error);
  CHECK(e.cache.length() == kContext);
}

TEST_CASE("cache: keys of a pass that failed halfway are written over") {
  KeyValueCache cache;
  const Identity layer;
  cache.append(layer, rows_of(2, 3, 1.0), rows_of(2, 3, 2.0));  // and no advance
  CHECK(cache.length() == 0);
  const auto [keys, values] = cache.append(layer, rows_of(1, 3, 5.0), rows_of(1, 3, 6.0));
  CHECK(keys == close({5, 5, 5}));
  CHECK(values == close({6, 6, 6}));
}

TEST_CASE("cache: room that runs out is doubled, and keeps what it held") {
  KeyValueCache cache;
  const Identity layer;
  std::vector<double> expected;
  for (int i = 1; i <= 9; ++i) {
    expected.push_back(i);
    CHECK(cache.append(layer, rows_of(1, 1, i), rows_of(1, 1, -i)).keys.values() == expected);
    cache.advance(1);
  }
  CHECK(cache.bytes() == 2 * 16 * 8);  // keys and values of 16 positions
}

TEST_CASE("cache: with room reserved, keys and values lie where they are, token after token") {
  KeyValueCache cache(100);
  const Identity layer;
  const Tensor first = cache.append(layer, rows_of(1, 4, 1.0), rows_of(1, 4, 2.0)).keys;
  cache.advance(1);
  CHECK(cache.append(layer, rows_of(99, 4, 3.0), rows_of(99, 4, 4.0)).keys.shares_storage_with(first));
}

TEST_CASE("cache: it grows with the key heads, not with the heads that read them") {
  TransformerConfig config = small(Architecture::llama);  // 4 heads of width 4
  for (const Index key_heads : {1, 2, 4}) {
    config.key_heads = key_heads;
    Transformer model(config, Rng(1));
    const EvaluationMode evaluation(model);
    Tape tape;
    const NoRecord no_record(tape);
    KeyValueCache cache(5);
    model(tape, {.tokens = tokens({1})}, cache);
    const Index numbers = 5 * key_heads * 4;      // of 5 positions
    CHECK(cache.bytes() == numbers * 2 * 2 * 8);  // keys and values, of two layers, in float64
  }
}

TEST_CASE("cache: cleared, it serves another sequence, and another number of them") {
  Evaluated e(Architecture::vanilla);
  for (const Index batch : {2, 1, 3}) {
    const ModelInput input = input_for(e.model, batch, 4);
    e.cache.clear();
    CHECK(largest_difference(logits_at_once(e.model, input), logits_in_pieces(e.model, input, {3, 1}, e.cache)) <
          kTolerance);
  }
}

TEST_CASE("cache: cut to a shorter length, it goes on from there") {
  Evaluated e(Architecture::gpt2);
  e.model(e.tape, {.tokens = tokens({1, 2, 3, 4})}, e.cache);
  e.cache.truncate(2);
  const std::vector<double> last = e.model(e.tape, {.tokens = tokens({7})}, e.cache).value().values();
  const std::vector<double> expected = logits_at_once(e.model, {.tokens = tokens({1, 2, 7})});
  CHECK(largest_difference(last, {expected.end() - kVocabulary, expected.end()}) < kTolerance);
  CHECK_THROWS_WITH_AS(e.cache.truncate(4), "cache: it has seen 3 tokens, so it can't be cut to 4", Error);
}

TEST_CASE("cache: what it can't serve is refused in words") {
  Evaluated e(Architecture::gpt2);
  const ModelInput next{.tokens = tokens({1, 2})};
  e.model(e.tape, next, e.cache);
  CHECK_THROWS_WITH_AS(
      e.model(e.tape, {.tokens = random_tokens({2, 1}, 1)}, e.cache),
      doctest::Contains("cache: it holds float64 of width 16, but the next tokens give float64 of width "
                        "32; it serves one model and one number of sequences"),
      Error);
  CHECK_THROWS_WITH_AS(e.model(e.tape, {.tokens = tokens({1}), .mask = tokens({1})}, e.cache),
                       doctest::Contains("a cache holds sequences of one length, so the tokens can't have a mask"),
                       Error);
  e.model.set_training(true);
  CHECK_THROWS_WITH_AS(e.model(e.tape, next, e.cache),
                       doctest::Contains("a cache is for evaluation, but the model is in training mode"), Error);
  e.model.set_training(false);
  Tape recording;
  CHECK_THROWS_WITH_AS(e.model(recording, next, e.cache),
                       doctest::Contains("a cache keeps values and no gradients; call the model under NoRecord"),
                       Error);
  CHECK(e.cache.length() == 2);
}

TEST_CASE("cache: an encoder has no use for it") {
  Evaluated e(Architecture::bert);
  CHECK_THROWS_WITH_AS(
      e.model(e.tape, {.tokens = tokens({1})}, e.cache),
      doctest::Contains("a cache is for decoders, which see no later token, but the model is an encoder"), Error);
}

TEST_CASE("cache: a source comes with the first tokens, and not again") {
  Evaluated e(Architecture::vanilla);
  CHECK_THROWS_WITH_AS(e.model(e.tape, {.tokens = tokens({1})}, e.cache),
                       doctest::Contains("expected a source for the encoder, got none"), Error);
  const ModelInput first{.tokens = tokens({1}), .source = tokens({2, 3})};
  e.model(e.tape, first, e.cache);
  CHECK_THROWS_WITH_AS(e.model(e.tape, first, e.cache),
                       doctest::Contains("the source belongs to the first tokens, but the cache has seen 1"), Error);
}
