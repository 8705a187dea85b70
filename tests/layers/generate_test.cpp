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
const GenerationOptions kMostLikely{.sampling = kGreedy};

TransformerConfig small_config(Architecture architecture, Index vocabulary, Index context) {
  TransformerConfig config{.vocabulary = vocabulary, .layers = 2, .dim = 8, .heads = 2, .context = context};
  config.dtype = DType::float64;
  apply_architecture(config, architecture);
  return config;
}

Prompt prompt_for(const Transformer& model, std::vector<std::int32_t> tokens) {
  if (model.config().kind == ModelKind::encoder_decoder) return {.tokens = tokens, .source = {3, 1, 2}};
  return {.tokens = std::move(tokens)};
}

Generated generated(Transformer& model, const Prompt& prompt, Index count, const GenerationOptions& options) {
  Rng rng(3);
  return generate(model, prompt, count, options, rng);
}

void check_refused(Transformer& model, const Prompt& prompt, const GenerationOptions& options, const char* message) {
  CHECK_THROWS_WITH_AS(generated(model, prompt, 3, options), message, Error);
}

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

TEST_CASE("sample_token: top_p draws from the fewest most likely tokens that reach it, in their own proportions") {
  // Probabilities 1/2, 1/4, 1/8, 1/8, in another order.
  const std::vector<double> logits{0.0, std::log(2.0), std::log(4.0), 0.0};
  CHECK(frequencies(logits, {.top_p = 0.49})[2] == doctest::Approx(1.0));
  const std::vector<double> two = frequencies(logits, {.top_p = 0.7});
  CHECK(std::abs(two[2] - 2.0 / 3.0) < kShareTolerance);
  CHECK(std::abs(two[1] - 1.0 / 3.0) < kShareTolerance);
  const std::vector<double> three = frequencies(logits, {.top_p = 0.8});  // of equals the lower one
  CHECK(three[0] > 0.0);
  CHECK(three[3] == 0.0);
}

TEST_CASE("sample_token: top_p reached exactly takes no token more, a top_p of 1 takes all, one of 0 the most likely") {
  const std::vector<double> logits{0.0, 0.0};
  CHECK(frequencies(logits, {.top_p = 0.5})[0] == doctest::Approx(1.0));
  CHECK(frequencies(logits, {.top_p = 1.0})[1] > 0.4);
  CHECK(sample({1.0, 2.0}, {.top_p = 0.0}) == 1);
}

TEST_CASE("sample_token: the temperature comes before top_p, and top_k before it too") {
  // softmax(0, ln 3) is 1/4, 3/4, and 1/10, 9/10 at temperature 1/2.
  const std::vector<double> logits{0.0, std::log(3.0)};
  CHECK(frequencies(logits, {.top_p = 0.8})[0] > 0.0);
  CHECK(frequencies(logits, {.temperature = 0.5, .top_p = 0.8})[0] == 0.0);
  // Of 0.4, 0.3 and 0.3, top_k leaves 4/7 and 3/7, of which the first reaches 0.5.
  const std::vector<double> three{std::log(0.4), std::log(0.3), std::log(0.3)};
  CHECK(frequencies(three, {.top_p = 0.5})[1] > 0.0);
  CHECK(frequencies(three, {.top_k = 2, .top_p = 0.5})[1] == 0.0);
}

TEST_CASE("sample_token: a top_p outside [0, 1] is refused") {
  CHECK_THROWS_WITH_AS(sample({1.0}, {.top_p = 1.5}), "sampling: top_p must lie in [0, 1], but is 1.5", Error);
  CHECK_THROWS_WITH_AS(sample({1.0}, {.top_p = std::nan("")}), "sampling: top_p must lie in [0, 1], but is nan", Error);
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
  const std::string text = generate(model, "ab", 12, {}, rng).bytes;
  generate(model, "ab", 12, {}, again, [&](char c) { pieces += c; });
  CHECK(text.size() == 12);
  CHECK(pieces == text);
}

TEST_CASE("generate: beyond the context the model sees the last tokens alone") {
  Transformer model = small_model();
  Rng rng(3);
  CHECK(generate(model, "xxxxabcd", 6, kMostLikely, rng).bytes == generate(model, "abcd", 6, kMostLikely, rng).bytes);
}

TEST_CASE("generate: sliding keeps the later half of the context, the new token included") {
  Transformer model(small_config(Architecture::plain, 40, 6), Rng(1));
  std::vector<std::int32_t> seen{1, 2, 3, 4, 5, 6};
  const std::vector<std::int32_t> tokens = generated(model, {seen}, 20, kMostLikely).tokens;
  for (const std::int32_t token : tokens) {
    CHECK(generated(model, {seen}, 1, kMostLikely).tokens[0] == token);
    if (seen.size() == 6) seen.erase(seen.begin(), seen.begin() + 4);
    seen.push_back(token);
  }
}

TEST_CASE("generate: with and without a cache, greedy or drawn, the tokens are equal") {
  for (const Architecture architecture :
       {Architecture::plain, Architecture::vanilla, Architecture::gpt2, Architecture::llama, Architecture::qwen}) {
    Transformer model(small_config(architecture, 40, 7), Rng(1));
    const bool slides = model.config().kind == ModelKind::decoder;
    for (const SamplingOptions& sampling :
         {kGreedy, SamplingOptions{}, SamplingOptions{.temperature = 0.7, .top_k = 20, .top_p = 0.9}}) {
      GenerationOptions options{.sampling = sampling};
      const Prompt prompt = prompt_for(model, {1, 2, 3});
      const Generated cached = generated(model, prompt, 30, options);
      options.cache = false;
      CHECK(cached.tokens == generated(model, prompt, 30, options).tokens);
      CHECK(cached.tokens.size() == (slides ? 30 : 5));
    }
  }
}

TEST_CASE("generate: a context of one position slides too") {
  Transformer model(small_config(Architecture::llama, 11, 1), Rng(1));
  CHECK(generated(model, {{5}}, 4, kMostLikely).tokens.size() == 4);
}

TEST_CASE("generate: a text that shall stop at the context ends there, and says so") {
  Transformer model(small_config(Architecture::gpt2, 11, 6), Rng(1));
  GenerationOptions options = kMostLikely;
  options.at_limit = AtLimit::stop;
  const Generated stopped = generated(model, {{1, 2, 3, 4}}, 10, options);
  CHECK(stopped.tokens.size() == 3);  // one after each of the positions 3, 4 and 5
  CHECK(stopped.end == GenerationEnd::context);
  CHECK(generated(model, {{1, 2, 3, 4}}, 3, options).end == GenerationEnd::count);
  CHECK(generated(model, {{1, 2, 3, 4}}, 10, kMostLikely).end == GenerationEnd::count);
}

TEST_CASE("generate: the stop token ends the text and is no part of it") {
  Transformer model(small_config(Architecture::gpt2, 40, 16), Rng(1));
  const std::vector<std::int32_t> free = generated(model, {{1}}, 12, {}).tokens;
  const std::int32_t stop = free[5];
  const auto first = std::find(free.begin(), free.end(), stop);
  std::vector<std::int32_t> observed;
  Rng rng(3);
  const Generated stopped =
      generate(model, Prompt{{1}}, 12, {.stop = stop}, rng, [&](std::int32_t token) { observed.push_back(token); });
  CHECK(stopped.tokens == std::vector<std::int32_t>(free.begin(), first));
  CHECK(observed == stopped.tokens);
  CHECK(stopped.end == GenerationEnd::stop_token);
}

TEST_CASE("generate: only drawable tokens are drawn") {
  Transformer model(small_config(Architecture::gpt2, 40, 16), Rng(1));
  for (const std::int32_t token : generated(model, {{39}}, 50, {.drawable = 3}).tokens) CHECK(token < 3);
}

TEST_CASE("generate: dropout and running statistics take no part, and the model trains on as before") {
  TransformerConfig config = small_config(Architecture::gpt2, 11, 8);
  config.dropout = 0.5;
  config.norm = NormKind::batch;
  Transformer model(config, Rng(1));
  const NamedTensors before = model.state();
  CHECK(generated(model, {{1}}, 6, kMostLikely).tokens == generated(model, {{1}}, 6, kMostLikely).tokens);
  CHECK(model.training());
  const NamedTensors after = model.state();
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(before[i].second.values() == after[i].second.values());
  CHECK_THROWS_AS(generated(model, {{1}}, 1, {.sampling = {.temperature = -1.0}}), Error);
  CHECK(model.training());
}

TEST_CASE("generate: a model with narrow activations keeps narrow keys and values") {
  TransformerConfig config = small_config(Architecture::llama, 11, 8);
  config.dtype = DType::float32;
  for (const Precision precision : {Precision::bfloat16, Precision::float16}) {
    config.precision = precision;
    Transformer model(config, Rng(1));
    CHECK(generated(model, {{1}}, 20, kMostLikely).tokens.size() == 20);
  }
}

TEST_CASE("generate: a limit of tokens that no memory holds reserves no more than the context") {
  Transformer model(small_config(Architecture::gpt2, 11, 8), Rng(1));
  const Index most = std::numeric_limits<Index>::max();
  CHECK(generated(model, {{1, 2}}, most, {.at_limit = AtLimit::stop}).tokens.size() == 7);
}

TEST_CASE("generate: an answer to a source depends on the source") {
  Transformer model(small_config(Architecture::vanilla, 40, 8), Rng(1));
  CHECK(generated(model, {.tokens = {1}, .source = {3, 1, 2}}, 8, {}).tokens !=
        generated(model, {.tokens = {1}, .source = {4, 4, 4}}, 8, {}).tokens);
}

TEST_CASE("generate: a text as a source is answered in bytes, after the token that begins answers") {
  Transformer model(small_config(Architecture::vanilla, 257, 8), Rng(1));
  Rng rng(3), again(3);
  const std::string answer = generate(model, "abc", 8, {}, rng).bytes;
  std::vector<std::int32_t> expected;
  for (const char c : answer) expected.push_back(static_cast<unsigned char>(c));
  CHECK(answer.size() == 8);
  CHECK(generate(model, Prompt{{256}, {'a', 'b', 'c'}}, 8, {.drawable = 256}, again).tokens == expected);
}

TEST_CASE("generate: an encoder is refused, since it has no next token") {
  Transformer model(small_config(Architecture::bert, 257, 8), Rng(1));
  Rng rng(3);
  const char* const message =
      "generate: an encoder says what stands where a token is hidden, and has no next token; expected a model of kind "
      "decoder or encoder_decoder";
  check_refused(model, {{1}}, {}, message);
  CHECK_THROWS_WITH_AS(generate(model, "a", 1, {}, rng), message, Error);
}

TEST_CASE("generate: sources and limits that don't fit are refused") {
  Transformer decoder(small_config(Architecture::gpt2, 11, 4), Rng(1));
  Transformer both(small_config(Architecture::vanilla, 11, 4), Rng(1));
  check_refused(decoder, {{1}, {2}}, {}, "generate: got a source, but a decoder reads none");
  check_refused(both, {{1}}, {}, "generate: the source is empty: expected at least one token to read");
  check_refused(both, {{1}, {1, 2, 3, 4, 5}}, {}, "generate: the source has 5 tokens, but the context is 4");
  check_refused(both, {{1}, {11}}, {}, "generate: the source's token 11 is outside the model's vocabulary of 11");
  check_refused(
      both, {{1}, {2}}, {.at_limit = AtLimit::slide},
      "generate: what answers a source begins with BOS and can't slide beyond the context; let it stop there");
  check_refused(decoder, {{1, 2, 3, 4, 5}}, {.at_limit = AtLimit::stop},
                "generate: the prompt has 5 tokens, but the context is 4; shorten it, or let it slide");
  check_refused(decoder, {{1}}, {.drawable = 12}, "generate: expected up to 11 drawable tokens, got 12");
}

TEST_CASE("generate: within the context the first token of the prompt counts") {
  Transformer model = small_model();
  const auto first_tokens = [&](std::string_view prompt) {
    std::string drawn;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      Rng rng(seed);
      drawn += generate(model, prompt, 1, {}, rng).bytes;
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
  CHECK_THROWS_WITH_AS(generate(model, Prompt{{12, 13}}, 1, {}, rng),
                       "generate: the prompt's token 13 is outside the model's vocabulary of 13", Error);
}

TEST_CASE("generate: a text needs a byte-level model") {
  Transformer model = small_model(13);
  Rng rng(3);
  CHECK_THROWS_WITH_AS(
      generate(model, "a", 1, {}, rng),
      "generate: expected a byte-level model, of 256 tokens and its special ones, but its vocabulary has 13", Error);
}

TEST_CASE("generate: a byte-level model that was trained on padded sequences never draws the padding") {
  Transformer model = small_model(257);
  Rng rng(3);
  NamedTensors state = model.state();
  for (auto& [name, tensor] : state) {  // logits of 8 for the padding, 4 for 'b', and 0 for other bytes
    if (name == "final_norm.beta") tensor = ones({8});
    if (name != "head.weight") continue;
    constexpr Index width = 8;
    std::vector<double> weight(std::size_t{257} * width, 0.0);
    std::fill_n(weight.begin() + 256 * width, width, 1.0);
    std::fill_n(weight.begin() + 'b' * width, width, 0.5);
    tensor = jnorm::tensor({257, 8}, weight, DType::float32);
  }
  model.load_state(state);
  CHECK(generate(model, Prompt{{0}}, 1, kMostLikely, rng).tokens[0] == 256);
  CHECK(generate(model, "a", 8, kMostLikely, rng).bytes == "bbbbbbbb");
}
