#include <jnorm/layers/objective.hpp>

#include <algorithm>
#include <cmath>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/kernels.hpp>
#include <jnorm/layers/transformer_config.hpp>

namespace jnorm {

namespace {

using Tokens = std::vector<std::int32_t>;

void append(Tokens& tokens, const Tokens& more) { tokens.insert(tokens.end(), more.begin(), more.end()); }

Tokens prompt_and_separator(const Example& example) {
  Tokens tokens = example.prompt;
  if (example.separator) tokens.push_back(*example.separator);
  return tokens;
}

ModelExample next_token(const Example& example) {
  Tokens all = prompt_and_separator(example);
  const std::size_t given = std::max<std::size_t>(all.size(), 1);  // nothing says a text's first token
  append(all, example.answer);
  Tokens targets(all.size() - 1, kIgnoreIndex);
  std::copy(all.begin() + static_cast<Index>(given), all.end(), targets.begin() + static_cast<Index>(given) - 1);
  all.pop_back();
  return {.tokens = std::move(all), .targets = std::move(targets)};
}

ModelExample masked_answer(const Example& example, std::int32_t mask) {
  Tokens tokens = prompt_and_separator(example);
  Tokens targets(tokens.size(), kIgnoreIndex);
  tokens.insert(tokens.end(), example.answer.size(), mask);
  append(targets, example.answer);
  return {.tokens = std::move(tokens), .targets = std::move(targets)};
}

std::int32_t shown_for(std::int32_t token, std::int32_t mask, Index own_vocabulary, Rng& rng) {
  const Index tenth = rng.below(10);
  if (tenth == 0) return static_cast<std::int32_t>(rng.below(own_vocabulary));
  return tenth == 1 ? token : mask;
}

ModelExample masked_text(const Tokens& text, double fraction, std::int32_t mask, Index own_vocabulary, Rng& rng) {
  ModelExample result{.tokens = text, .targets = Tokens(text.size(), kIgnoreIndex)};
  const auto count = static_cast<Index>(text.size());
  Index wanted = std::max<Index>(1, std::lround(fraction * static_cast<double>(count)));
  // Every choice of `wanted` positions is equally likely. (Knuth, The Art of Computer Programming 2, algorithm 3.4.2
  // S.)
  for (Index i = 0; wanted > 0; ++i) {
    if (rng.below(count - i) >= wanted) continue;
    --wanted;
    const auto at = static_cast<std::size_t>(i);
    result.targets[at] = text[at];
    result.tokens[at] = shown_for(text[at], mask, own_vocabulary, rng);
  }
  return result;
}

ModelExample translation(const Example& example, std::int32_t begin) {
  Tokens tokens{begin};
  tokens.insert(tokens.end(), example.answer.begin(), example.answer.end() - 1);
  return {.tokens = std::move(tokens), .targets = example.answer, .source = example.prompt};
}

// A text's first half is given, the second, which is never the shorter one, is the answer.
Example halves_of(const Tokens& text) {
  const auto middle = text.begin() + static_cast<Index>(text.size() / 2);
  return {.prompt = {text.begin(), middle}, .answer = {middle, text.end()}};
}

[[noreturn]] void fail_unknown(Objective objective) {
  fail(ErrorKind::argument, "there is no objective {}", static_cast<int>(objective));
}

}  // namespace

Objective objective_of(ModelKind kind) {
  switch (kind) {
    case ModelKind::decoder: break;
    case ModelKind::encoder: return Objective::masked;
    case ModelKind::encoder_decoder: return Objective::translation;
  }
  return Objective::next_token;
}

SpecialTokens special_tokens(Objective objective, Index own_vocabulary, bool lengths_vary) {
  SpecialTokens special;
  const auto next = [&] { return static_cast<std::int32_t>(own_vocabulary + special.count()); };
  if (objective == Objective::masked) special.mask = next();
  if (objective == Objective::translation) special.begin = next();
  if (lengths_vary) special.padding = next();
  return special;
}

ModelExample model_example(const Example& example, const ObjectiveOptions& options, Index own_vocabulary, Rng& rng) {
  expect(!example.answer.empty(), "objective: an example without an answer has nothing to learn");
  const SpecialTokens special = special_tokens(options.objective, own_vocabulary, false);
  switch (options.objective) {
    case Objective::next_token: return next_token(example);
    case Objective::masked:
      return example.prompt.empty()
                 ? masked_text(example.answer, options.mask_fraction, *special.mask, own_vocabulary, rng)
                 : masked_answer(example, *special.mask);
    case Objective::translation:
      return translation(example.prompt.empty() ? halves_of(example.answer) : example, *special.begin);
  }
  fail_unknown(options.objective);
}

ModelExampleSize model_example_size(const ExampleSize& example, Objective objective) {
  const Index all = example.prompt + Index{example.separator} + example.answer;
  switch (objective) {
    case Objective::next_token: return {.tokens = all - 1};
    case Objective::masked: return {.tokens = all};
    case Objective::translation:
      if (example.prompt == 0) return {.tokens = all - all / 2, .source = all / 2};
      return {.tokens = example.answer, .source = example.prompt};
  }
  fail_unknown(objective);
}

Index window_length(Objective objective, Index length) {
  switch (objective) {
    case Objective::next_token: return length + 1;
    case Objective::masked: return length;
    case Objective::translation: return 2 * length;
  }
  fail_unknown(objective);
}

}  // namespace jnorm
