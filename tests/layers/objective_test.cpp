#include <jnorm/layers/objective.hpp>

#include <algorithm>

#include <doctest/doctest.h>

#include <jnorm/core/error.hpp>
#include <jnorm/core/kernels.hpp>

using namespace jnorm;

namespace {

using Tokens = std::vector<std::int32_t>;

constexpr std::int32_t kIgnored = kIgnoreIndex;

// 3 1 2 | 2 1 3, of 4 symbols: the separator is token 4, a special token 5.
const Example kReverse{.prompt = {3, 1, 2}, .separator = 4, .answer = {2, 1, 3}};
constexpr Index kVocabulary = 5;

ModelExample as(Objective objective, const Example& example, std::uint64_t seed = 1) {
  Rng rng(seed);
  return model_example(example, {.objective = objective}, kVocabulary, rng);
}

// What became of the targets of 2000 sequences of 40 equal tokens.
struct Masking {
  Index targets = 0, masks = 0, same = 0, other = 0;
};

constexpr Index kSequences = 2000, kLength = 40, kOwn = 50;
constexpr std::int32_t kToken = 7, kMask = 50;

Masking masking_of(double fraction) {
  const Example text{.answer = Tokens(kLength, kToken)};
  Rng rng(1);
  Masking counts;
  for (Index i = 0; i < kSequences; ++i) {
    const ModelExample example =
        model_example(text, {.objective = Objective::masked, .mask_fraction = fraction}, kOwn, rng);
    for (std::size_t at = 0; at < example.tokens.size(); ++at) {
      if (example.targets[at] == kIgnored) continue;
      const std::int32_t shown = example.tokens[at];
      ++counts.targets;
      ++(shown == kMask ? counts.masks : shown == kToken ? counts.same : counts.other);
    }
  }
  return counts;
}

}  // namespace

TEST_CASE("objective: next_token says each token of the answer from those before it") {
  const ModelExample example = as(Objective::next_token, kReverse);
  CHECK(example.tokens == Tokens{3, 1, 2, 4, 2, 1});
  CHECK(example.targets == Tokens{kIgnored, kIgnored, kIgnored, 2, 1, 3});
  CHECK(example.source.empty());
}

TEST_CASE("objective: next_token says all of a text but its first token") {
  const ModelExample example = as(Objective::next_token, {.answer = {1, 2, 3, 4}});
  CHECK(example.tokens == Tokens{1, 2, 3});
  CHECK(example.targets == Tokens{2, 3, 4});
}

TEST_CASE("objective: masked hides the answer, and says it where it is hidden") {
  const ModelExample example = as(Objective::masked, kReverse);
  CHECK(example.tokens == Tokens{3, 1, 2, 4, 5, 5, 5});
  CHECK(example.targets == Tokens{kIgnored, kIgnored, kIgnored, kIgnored, 2, 1, 3});
}

TEST_CASE("objective: translation reads the prompt as source, and says the answer after BOS") {
  const ModelExample example = as(Objective::translation, kReverse);
  CHECK(example.source == Tokens{3, 1, 2});
  CHECK(example.tokens == Tokens{5, 2, 1});
  CHECK(example.targets == Tokens{2, 1, 3});
}

TEST_CASE("objective: translation of a text goes from its first half to its second") {
  const ModelExample example = as(Objective::translation, {.answer = {0, 1, 2, 3, 4}});
  CHECK(example.source == Tokens{0, 1});
  CHECK(example.tokens == Tokens{5, 2, 3});
  CHECK(example.targets == Tokens{2, 3, 4});
}

TEST_CASE("objective: of a text, 15% of the positions are targets, which show MASK, a random and the right token") {
  const Masking counts = masking_of(0.15);
  CHECK(counts.targets == 6 * kSequences);  // of 40
  // A random token is the right one once in 50: 0.1 * 49/50 and 0.1 + 0.1/50. Five standard deviations of a share near
  // 0.1 are 0.014 and near 0.8 0.018.
  const auto share = [&](Index count) { return static_cast<double>(count) / static_cast<double>(counts.targets); };
  CHECK(share(counts.masks) == doctest::Approx(0.8).epsilon(0.018 / 0.8));
  CHECK(share(counts.other) == doctest::Approx(0.098).epsilon(0.014 / 0.1));
  CHECK(share(counts.same) == doctest::Approx(0.102).epsilon(0.014 / 0.1));
}

TEST_CASE("objective: masked has a target even where its share of a text is less than half a token") {
  CHECK(masking_of(0.001).targets == kSequences);
  CHECK(masking_of(1.0).targets == kLength * kSequences);
}

TEST_CASE("objective: masked leaves what it doesn't choose as it is, and chooses every position as often") {
  Example text;
  for (std::int32_t i = 0; i < 5; ++i) text.answer.push_back(i);
  Rng rng(1);
  std::vector<int> chosen(5);
  constexpr int draws = 5000;
  for (int i = 0; i < draws; ++i) {
    const ModelExample example =
        model_example(text, {.objective = Objective::masked, .mask_fraction = 0.4}, kVocabulary, rng);
    for (std::size_t at = 0; at < 5; ++at) {
      const bool is_target = example.targets[at] != kIgnored;
      chosen[at] += is_target;
      CHECK((is_target ? example.targets[at] : example.tokens[at]) == text.answer[at]);
    }
  }
  for (const int count : chosen) CHECK(std::abs(count - 2000) < 175);  // five standard deviations of 0.4 in 5000 draws
}

TEST_CASE("objective: a random token is one of the data's own, never a special one") {
  const Example text{.answer = Tokens(1000, 0)};
  const ModelExample example = as(Objective::masked, text);
  const std::int32_t largest = *std::max_element(example.tokens.begin(), example.tokens.end());
  CHECK(largest == 5);  // MASK
  CHECK(std::count(example.tokens.begin(), example.tokens.end(), 4) > 0);
}

TEST_CASE("objective: only masked draws anything, and only of a text") {
  for (const Objective objective : {Objective::next_token, Objective::masked, Objective::translation}) {
    Rng rng(1);
    model_example(kReverse, {.objective = objective}, kVocabulary, rng);
    CHECK(rng.state().counter == 0);
  }
}

TEST_CASE("objective: special tokens are numbered after the data's own, padding last") {
  const SpecialTokens masked = special_tokens(Objective::masked, 256, true);
  CHECK(masked.mask == 256);
  CHECK(masked.padding == 257);
  CHECK_FALSE(masked.begin.has_value());
  CHECK(special_tokens(Objective::translation, 13, false).begin == 13);
  CHECK(special_tokens(Objective::translation, 13, false).count() == 1);
  CHECK(special_tokens(Objective::next_token, 13, true).padding == 13);
  CHECK(special_tokens(Objective::next_token, 13, false).count() == 0);
}

TEST_CASE("objective: the size that is foretold is the size that an example gets") {
  for (const Objective objective : {Objective::next_token, Objective::masked, Objective::translation}) {
    const Example text{.answer = {0, 1, 2, 3, 4, 0, 1}};
    const ModelExampleSize task_size = model_example_size({.prompt = 3, .separator = true, .answer = 3}, objective);
    const ModelExampleSize text_size = model_example_size({.answer = 7}, objective);
    CHECK(task_size.tokens == static_cast<Index>(as(objective, kReverse).tokens.size()));
    CHECK(task_size.source == static_cast<Index>(as(objective, kReverse).source.size()));
    CHECK(text_size.tokens == static_cast<Index>(as(objective, text).tokens.size()));
    CHECK(text_size.source == static_cast<Index>(as(objective, text).source.size()));
  }
}

TEST_CASE("objective: a window of a text makes a sequence of the length that it was cut for") {
  for (const Objective objective : {Objective::next_token, Objective::masked, Objective::translation}) {
    const Example text{.answer = Tokens(static_cast<std::size_t>(window_length(objective, 3)), 1)};
    CHECK(as(objective, text).tokens.size() == 3);
    CHECK(as(objective, text).targets.size() == 3);
  }
}

TEST_CASE("objective: an example without an answer is refused") {
  CHECK_THROWS_WITH_AS(as(Objective::masked, {.prompt = {1}}),
                       "objective: an example without an answer has nothing to learn", Error);
}
