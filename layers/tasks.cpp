#include <jnorm/layers/tasks.hpp>

#include <algorithm>
#include <numeric>

#include <jnorm/core/expect.hpp>
#include <jnorm/layers/names.hpp>

namespace jnorm {

namespace {

using Symbols = std::vector<std::int32_t>;
using Answer = void (*)(Symbols& symbols);  // makes the answer of them

void copy(Symbols& /*symbols*/) {}
void reverse(Symbols& symbols) { std::reverse(symbols.begin(), symbols.end()); }
void sort(Symbols& symbols) { std::sort(symbols.begin(), symbols.end()); }

std::int32_t symbol_below(Index count, Rng& rng) { return static_cast<std::int32_t>(rng.below(count)); }

// copy, reverse and sort: n symbols, a separator, an answer of n symbols.
class SequenceTask : public DataSource {
 public:
  SequenceTask(std::string_view name, Answer answer, const TaskOptions& options, const Rng& rng)
      : DataSource(rng, options.objective), name_(name), answer_(answer), symbols_(options.symbols) {
    constexpr Index largest = Index{1} << 30;  // tokens and positions are int32
    expect(options.length > 0 && options.length < largest,
           "task {}: the length must be positive and below 2^30, but is {}", name, options.length);
    expect(symbols_ > 0 && symbols_ < largest,
           "task {}: the number of symbols must be positive and below 2^30, but is {}", name, symbols_);
    lengths_ = Lengths::from(fmt::format("task {}", name), options.min_length, options.length);
  }

  Index own_vocabulary() const override { return symbols_ + 1; }
  std::string description() const override {
    return fmt::format("task {} of {} symbols of {}", name_, lengths_.in_words(), symbols_);
  }

 protected:
  Example draw(Part /*part*/, Rng& rng) const override {
    const Index n = lengths_.draw(rng);
    Example example{.separator = static_cast<std::int32_t>(symbols_)};
    for (Index i = 0; i < n; ++i) example.prompt.push_back(symbol_below(symbols_, rng));
    example.answer = example.prompt;
    answer_(example.answer);
    return example;
  }
  ExampleSize longest() const override { return {.prompt = lengths_.most, .separator = true, .answer = lengths_.most}; }
  bool lengths_vary() const override { return lengths_.vary(); }

 private:
  std::string_view name_;
  Answer answer_;
  Index symbols_;
  Lengths lengths_;
};

class ModularAddition : public DataSource {
 public:
  ModularAddition(const TaskOptions& options, const Rng& rng)
      : DataSource(rng, options.objective), modulus_(options.modulus), fraction_(options.validation_fraction) {
    constexpr Index largest = 4096;  // the list of pairs then takes 64 MiB
    expect(modulus_ > 0 && modulus_ <= largest, "task modular_addition: the modulus must lie in [1, {}], but is {}",
           largest, modulus_);
    expect(fraction_ >= 0.0 && fraction_ < 1.0,
           "task modular_addition: the validation fraction must lie in [0, 1), but is {}", fraction_);
    pairs_.resize(static_cast<std::size_t>(modulus_ * modulus_));
    std::iota(pairs_.begin(), pairs_.end(), 0);
    shuffle(rng.split("pairs"));
    held_out_ = static_cast<Index>(static_cast<double>(pairs_.size()) * fraction_);
  }

  Index own_vocabulary() const override { return modulus_ + 1; }
  bool has_validation() const override { return held_out_ > 0; }
  std::string description() const override {
    return fmt::format("task modular_addition modulo {}, {} pairs held out", modulus_, held_out_);
  }

 protected:
  Example draw(Part part, Rng& rng) const override {
    const auto count = static_cast<Index>(pairs_.size());
    const Index i = part == Part::validation ? rng.below(held_out_) : held_out_ + rng.below(count - held_out_);
    const auto modulus = static_cast<std::int32_t>(modulus_);
    const std::int32_t pair = pairs_[static_cast<std::size_t>(i)];
    const std::int32_t a = pair / modulus, b = pair % modulus;
    return {.prompt = {a, b}, .separator = modulus, .answer = {(a + b) % modulus}};
  }
  ExampleSize longest() const override { return {.prompt = 2, .separator = true, .answer = 1}; }

 private:
  // Fisher and Yates. (std::shuffle may differ from one standard library to the next.)
  void shuffle(Rng rng) {
    for (std::size_t i = pairs_.size(); i > 1; --i) {
      std::swap(pairs_[i - 1], pairs_[static_cast<std::size_t>(rng.below(static_cast<Index>(i)))]);
    }
  }

  Index modulus_;
  double fraction_;
  std::vector<std::int32_t> pairs_;  // a * modulus + b, shuffled; the first held_out_ are for validation
  Index held_out_ = 0;
};

}  // namespace

const std::vector<std::string>& task_names() {
  static const std::vector<std::string> names{"copy", "reverse", "sort", "modular_addition"};
  return names;
}

void expect_task(std::string_view name) {
  const std::vector<std::string>& names = task_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) fail_unknown_name("task", name, names);
}

std::unique_ptr<DataSource> make_task(std::string_view name, const TaskOptions& options, const Rng& rng) {
  expect_task(name);
  if (name == "copy") return std::make_unique<SequenceTask>("copy", copy, options, rng);
  if (name == "reverse") return std::make_unique<SequenceTask>("reverse", reverse, options, rng);
  if (name == "sort") return std::make_unique<SequenceTask>("sort", sort, options, rng);
  return std::make_unique<ModularAddition>(options, rng);
}

}  // namespace jnorm
