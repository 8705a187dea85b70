#include <jnorm/layers/tasks.hpp>

#include <algorithm>
#include <numeric>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/kernels.hpp>
#include <jnorm/layers/names.hpp>

namespace jnorm {

namespace {

using Answer = void (*)(std::span<const std::int32_t> symbols, std::span<std::int32_t> answer);

void copy(std::span<const std::int32_t> symbols, std::span<std::int32_t> answer) {
  std::copy(symbols.begin(), symbols.end(), answer.begin());
}

void reverse(std::span<const std::int32_t> symbols, std::span<std::int32_t> answer) {
  std::reverse_copy(symbols.begin(), symbols.end(), answer.begin());
}

void sort(std::span<const std::int32_t> symbols, std::span<std::int32_t> answer) {
  std::partial_sort_copy(symbols.begin(), symbols.end(), answer.begin(), answer.end());
}

std::int32_t symbol_below(Index count, Rng& rng) { return static_cast<std::int32_t>(rng.below(count)); }

// copy, reverse and sort: n symbols, a separator, an answer of n symbols.
class SequenceTask : public DataSource {
 public:
  SequenceTask(std::string_view name, Answer answer, const TaskOptions& options, const Rng& rng)
      : DataSource(rng), name_(name), answer_(answer), length_(options.length), symbols_(options.symbols) {
    constexpr Index largest = Index{1} << 30;  // tokens and positions are int32
    expect(length_ > 0 && length_ < largest, "task {}: the length must be positive and below 2^30, but is {}", name,
           length_);
    expect(symbols_ > 0 && symbols_ < largest,
           "task {}: the number of symbols must be positive and below 2^30, but is {}", name, symbols_);
  }

  Index vocabulary() const override { return symbols_ + 1; }
  Index context() const override { return 2 * length_; }
  std::string description() const override {
    return fmt::format("task {} of {} symbols of {}", name_, length_, symbols_);
  }

 protected:
  void draw(Part /*part*/, Rng& rng, std::span<std::int32_t> tokens, std::span<std::int32_t> targets) const override {
    const auto n = static_cast<std::size_t>(length_);
    const auto symbols = tokens.first(n);
    const auto answer = targets.last(n);  // the separator's target, and those of the symbols after it
    for (std::int32_t& symbol : symbols) symbol = symbol_below(symbols_, rng);
    answer_(symbols, answer);
    tokens[n] = static_cast<std::int32_t>(symbols_);
    std::copy(answer.begin(), answer.end() - 1, tokens.begin() + length_ + 1);
    std::fill_n(targets.begin(), length_, kIgnoreIndex);
  }

 private:
  std::string_view name_;
  Answer answer_;
  Index length_;
  Index symbols_;
};

class ModularAddition : public DataSource {
 public:
  ModularAddition(const TaskOptions& options, const Rng& rng)
      : DataSource(rng), modulus_(options.modulus), fraction_(options.validation_fraction) {
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

  Index vocabulary() const override { return modulus_ + 1; }
  Index context() const override { return 3; }
  bool has_validation() const override { return held_out_ > 0; }
  std::string description() const override {
    return fmt::format("task modular_addition modulo {}, {} pairs held out", modulus_, held_out_);
  }

 protected:
  void draw(Part part, Rng& rng, std::span<std::int32_t> tokens, std::span<std::int32_t> targets) const override {
    const auto count = static_cast<Index>(pairs_.size());
    const Index i = part == Part::validation ? rng.below(held_out_) : held_out_ + rng.below(count - held_out_);
    const auto modulus = static_cast<std::int32_t>(modulus_);
    const std::int32_t pair = pairs_[static_cast<std::size_t>(i)];
    const std::int32_t a = pair / modulus, b = pair % modulus;
    tokens[0] = a;
    tokens[1] = b;
    tokens[2] = modulus;
    targets[0] = targets[1] = kIgnoreIndex;
    targets[2] = (a + b) % modulus;
  }

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
