#include <jnorm/layers/generate.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

using namespace jnorm;

namespace {

std::int32_t sample(const std::vector<double>& logits, const SamplingOptions& options, std::uint64_t seed = 1) {
  Rng rng(seed);
  return sample_token(logits, options, rng);
}

// How often each token is drawn in 4000 draws.
std::vector<double> frequencies(const std::vector<double>& logits, const SamplingOptions& options) {
  constexpr int draws = 4000;
  std::vector<double> shares(logits.size());
  Rng rng(7);
  for (int i = 0; i < draws; ++i) {
    shares[static_cast<std::size_t>(sample_token(logits, options, rng))] += 1.0 / draws;
  }
  return shares;
}

// Five standard deviations of a share near 1/2 in 4000 draws.
constexpr double kShareTolerance = 0.04;

Transformer small_model(Index vocabulary = 256, Index context = 4) {
  return Transformer({.vocabulary = vocabulary, .layers = 1, .dim = 8, .heads = 2, .context = context}, Rng(1));
}

const SamplingOptions kGreedy{.temperature = 0.0};

}  // namespace

TEST_CASE("sample_token: temperature 0 takes the most likely token, the first of equals, and draws nothing") {
  Rng rng(1);
  CHECK(sample_token(std::vector{1.0, 2.0}, kGreedy, rng) == 1);
  CHECK(sample_token(std::vector{2.0, 2.0, 1.0}, kGreedy, rng) == 0);
  CHECK(rng.state().counter == 0);
}

TEST_CASE("sample_token: tiny temperatures stay finite and take the most likely token") {
  CHECK(sample({1.0, 2.0}, {.temperature = 1e-4}) == 1);
  CHECK(sample({1.0, 2.0}, {.temperature = 5e-324}) == 1);
  CHECK(sample({-1e308, 1e308}, {.temperature = 1e-4}) == 1);
}

TEST_CASE("sample_token: shares are softmax(logits / temperature)") {
  // softmax(0, ln 3) is 1/4, 3/4; at temperature 1/2 the odds are squared, 1/10, 9/10.
  const std::vector<double> logits{0.0, std::log(3.0)};
  CHECK(std::abs(frequencies(logits, {})[1] - 0.75) < kShareTolerance);
  CHECK(std::abs(frequencies(logits, {.temperature = 0.5})[1] - 0.9) < kShareTolerance);
}

TEST_CASE("sample_token: logits far from 0 keep their shares") {
  for (const double offset : {1000.0, -1000.0}) {
    CHECK(std::abs(frequencies({offset, offset + std::log(3.0)}, {})[1] - 0.75) < kShareTolerance);
  }
}

TEST_CASE("sample_token: top_k draws from the k most likely alone, in their own proportions") {
  const std::vector<double> shares = frequencies({0.0, std::log(3.0), -50.0, std::log(3.0)}, {.top_k = 2});
  CHECK(shares[0] == 0.0);
  CHECK(std::abs(shares[1] - 0.5) < kShareTolerance);
  CHECK(shares[2] == 0.0);
  CHECK(std::abs(shares[3] - 0.5) < kShareTolerance);
}

TEST_CASE("sample_token: top_k of 1 is the most likely token") { CHECK(sample({0.0, 0.1}, {.top_k = 1}) == 1); }

TEST_CASE("sample_token: a top_k of 0 or beyond the vocabulary means all tokens") {
  const std::vector<double> logits{0.0, 0.0, 0.0};
  CHECK(frequencies(logits, {.top_k = 0}) == frequencies(logits, {.top_k = 3}));
  CHECK(frequencies(logits, {.top_k = 1000}) == frequencies(logits, {.top_k = 3}));
}

TEST_CASE("sample_token: negative and NaN temperatures and a negative top_k are refused") {
  CHECK_THROWS_WITH_AS(sample({1.0}, {.temperature = -1.0}),
                       "sampling: the temperature must be 0 or positive and finite, but is -1", Error);
  CHECK_THROWS_WITH_AS(sample({1.0}, {.temperature = std::nan("")}),
                       "sampling: the temperature must be 0 or positive and finite, but is nan", Error);
  CHECK_THROWS_WITH_AS(sample({1.0}, {.top_k = -1}), "sampling: top_k must not be negative, but is -1", Error);
}

TEST_CASE("sample_token: logits that aren't finite are refused") {
  CHECK_THROWS_WITH_AS(sample({1.0, std::nan("")}, {}), "sampling: a logit is nan, so no token can be drawn", Error);
  CHECK_THROWS_AS(sample({1.0, std::numeric_limits<double>::infinity()}, kGreedy), Error);
}

TEST_CASE("generate: the same seed gives the same text, whole or piece by piece") {
  Transformer model = small_model();
  Rng rng(3), again(3);
  std::string pieces;
  const std::string text = generate(model, "ab", 12, {}, rng);
  generate(model, "ab", 12, {}, again, [&](char c) { pieces += c; });
  CHECK(text.size() == 12);
  CHECK(pieces == text);
}

TEST_CASE("generate: beyond the context the model sees the last tokens alone") {
  Transformer model = small_model();
  Rng rng(3);
  CHECK(generate(model, "xxxxabcd", 6, kGreedy, rng) == generate(model, "abcd", 6, kGreedy, rng));
}

TEST_CASE("generate: within the context the first token of the prompt counts") {
  Transformer model = small_model();
  const auto first_tokens = [&](std::string_view prompt) {
    std::string drawn;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      Rng rng(seed);
      drawn += generate(model, prompt, 1, {}, rng);
    }
    return drawn;
  };
  CHECK(first_tokens("abcd") != first_tokens("zbcd"));
  CHECK(first_tokens("abcd") == first_tokens("abcd"));
}

TEST_CASE("generate: an empty prompt is refused") {
  Transformer model = small_model();
  Rng rng(3);
  CHECK_THROWS_WITH_AS(generate(model, "", 1, {}, rng),
                       "generate: the prompt is empty: expected at least one token to go on from", Error);
}

TEST_CASE("generate: a token outside the vocabulary is refused") {
  Transformer model = small_model(13);
  Rng rng(3);
  CHECK_THROWS_WITH_AS(generate(model, std::vector<std::int32_t>{12, 13}, 1, {}, rng),
                       "generate: the prompt's token 13 is outside the model's vocabulary of 13", Error);
}

TEST_CASE("generate: a text needs a byte-level model") {
  Transformer model = small_model(13);
  Rng rng(3);
  CHECK_THROWS_WITH_AS(generate(model, "a", 1, {}, rng),
                       "generate: expected a byte-level model with a vocabulary of 256, but it has 13", Error);
}

TEST_CASE("generate: a byte-level model that was trained on padded sequences never draws the padding") {
  Transformer model = small_model(257);
  Rng rng(3);
  NamedTensors state = model.state();
  for (auto& [name, tensor] : state) {  // logits of 8 for the padding, 4 for 'b', and 0 for other bytes
    if (name == "final_norm.beta") tensor = ones({8});
    if (name != "head.weight") continue;
    std::vector<double> weight(std::size_t{257} * 8, 0.0);
    std::fill_n(weight.begin() + 256 * 8, 8, 1.0);
    std::fill_n(weight.begin() + 'b' * 8, 8, 0.5);
    tensor = jnorm::tensor({257, 8}, weight, DType::float32);
  }
  model.load_state(state);
  CHECK(generate(model, std::vector<std::int32_t>{0}, 1, kGreedy, rng)[0] == 256);
  CHECK(generate(model, "a", 8, kGreedy, rng) == "bbbbbbbb");
}
