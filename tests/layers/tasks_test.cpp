#include <jnorm/layers/tasks.hpp>

#include <algorithm>
#include <cmath>
#include <set>

#include <doctest/doctest.h>
#include <jnorm/core/kernels.hpp>

using namespace jnorm;

namespace {

struct Sequence {
  std::vector<std::int32_t> tokens, targets;
};

std::vector<Sequence> rows_of(const Batch& batch) {
  std::vector<Sequence> rows;
  const Index length = batch.tokens.dim(1);
  for (Index row = 0; row < batch.tokens.dim(0); ++row) {
    const auto* tokens = batch.tokens.data<std::int32_t>() + row * length;
    const auto* targets = batch.targets.data<std::int32_t>() + row * length;
    rows.push_back({{tokens, tokens + length}, {targets, targets + length}});
  }
  return rows;
}

std::vector<Sequence> sequences(std::string_view task, const TaskOptions& options, Index count) {
  return rows_of(make_task(task, options, Rng(1))->next(count));
}

std::vector<std::int32_t> symbols(const Sequence& row) { return {row.tokens.begin(), row.tokens.begin() + 6}; }
std::vector<std::int32_t> answer(const Sequence& row) { return {row.targets.end() - 6, row.targets.end()}; }

}  // namespace

TEST_CASE("tasks: copy has 6 of 12 symbols, a separator, and the loss on the copied half") {
  const auto task = make_task("copy", {}, Rng(1));
  CHECK(task->vocabulary() == 13);
  CHECK(task->context() == 12);  // all but the last of 13 tokens
  for (const Sequence& row : rows_of(task->next(20))) {
    CHECK(row.tokens[6] == 12);
    CHECK(std::count(row.targets.begin(), row.targets.begin() + 6, kIgnoreIndex) == 6);
    CHECK(answer(row) == symbols(row));
  }
}

TEST_CASE("tasks: the answer is fed back: each token after the separator is the target before it") {
  for (const Sequence& row : sequences("reverse", {}, 20)) {
    CHECK(std::equal(row.tokens.begin() + 7, row.tokens.end(), row.targets.begin() + 6));
  }
}

TEST_CASE("tasks: reverse and sort answer with the symbols turned round and in order") {
  for (const Sequence& row : sequences("reverse", {}, 20)) {
    std::vector<std::int32_t> expected = symbols(row);
    std::reverse(expected.begin(), expected.end());
    CHECK(answer(row) == expected);
  }
  for (const Sequence& row : sequences("sort", {}, 20)) {
    std::vector<std::int32_t> expected = symbols(row);
    std::sort(expected.begin(), expected.end());
    CHECK(answer(row) == expected);
  }
}

TEST_CASE("tasks: one symbol long is the shortest sequence") {
  const std::vector<Sequence> rows = sequences("copy", {.length = 1, .symbols = 3}, 1);
  CHECK(rows[0].tokens == std::vector<std::int32_t>{rows[0].tokens[0], 3});
  CHECK(rows[0].targets == std::vector<std::int32_t>{kIgnoreIndex, rows[0].tokens[0]});
}

TEST_CASE("tasks: all symbols are drawn") {
  std::set<std::int32_t> seen;
  for (const Sequence& row : sequences("copy", {}, 100)) seen.insert(row.tokens.begin(), row.tokens.begin() + 6);
  CHECK(seen.size() == 12);  // 600 draws miss one of 12 with a probability of 12 e^-52
}

TEST_CASE("tasks: modular addition asks for the sum after the equals sign alone") {
  const auto task = make_task("modular_addition", {.modulus = 5}, Rng(1));
  CHECK(task->vocabulary() == 6);
  CHECK(task->context() == 3);
  for (const Sequence& row : rows_of(task->next(20))) {
    CHECK(row.tokens[2] == 5);
    CHECK(row.targets == std::vector<std::int32_t>{kIgnoreIndex, kIgnoreIndex, (row.tokens[0] + row.tokens[1]) % 5});
  }
}

TEST_CASE("tasks: modular addition never trains on a held-out pair, and misses no other") {
  const auto task = make_task("modular_addition", {.modulus = 5, .validation_fraction = 0.4}, Rng(1));
  const auto pairs_in = [](const Batch& batch) {
    std::set<std::pair<std::int32_t, std::int32_t>> pairs;
    for (const Sequence& row : rows_of(batch)) pairs.insert({row.tokens[0], row.tokens[1]});
    return pairs;
  };
  const auto trained = pairs_in(task->next(1000));
  const auto held_out = pairs_in(task->validation(1000, 0));
  CHECK(trained.size() == 15);
  CHECK(held_out.size() == 10);
  for (const auto& pair : held_out) CHECK_FALSE(trained.contains(pair));
}

TEST_CASE("tasks: a restored state draws what would have followed") {
  const auto task = make_task("sort", {}, Rng(1)), other = make_task("sort", {}, Rng(1));
  task->next(3);
  other->set_state(task->state());
  CHECK(other->next(3).tokens.values() == task->next(3).tokens.values());
}

TEST_CASE("tasks: an unknown name lists the tasks and names the nearest") {
  CHECK_THROWS_WITH_AS(
      make_task("revrse", {}, Rng(1)),
      "task: expected one of copy, reverse, sort, modular_addition, got \"revrse\"; did you mean reverse?", Error);
}

TEST_CASE("tasks: sizes that aren't positive, or too large, are refused") {
  CHECK_THROWS_WITH_AS(make_task("copy", {.length = 0}, Rng(1)),
                       "task copy: the length must be positive and below 2^30, but is 0", Error);
  CHECK_THROWS_WITH_AS(make_task("sort", {.symbols = -1}, Rng(1)),
                       "task sort: the number of symbols must be positive and below 2^30, but is -1", Error);
  CHECK_THROWS_AS(make_task("copy", {.length = Index{1} << 62}, Rng(1)), Error);
  CHECK_THROWS_WITH_AS(make_task("modular_addition", {.modulus = 0}, Rng(1)),
                       "task modular_addition: the modulus must lie in [1, 4096], but is 0", Error);
}

TEST_CASE("tasks: modular addition with every pair held out has nothing to train on, and says so") {
  CHECK_THROWS_WITH_AS(make_task("modular_addition", {.validation_fraction = 1.0}, Rng(1)),
                       "task modular_addition: the validation fraction must lie in [0, 1), but is 1", Error);
}

TEST_CASE("tasks: a seed's sequences stay what they are, to the token") {
  const auto first_row = [](const char* task) { return make_task(task, {}, Rng(1).split("data"))->next(2); };
  CHECK(first_row("sort").tokens.values() ==
        std::vector<double>{4, 9, 11, 4, 5, 0, 12, 0, 4, 4, 5, 9, 2, 11, 6, 8, 0, 9, 12, 0, 2, 6, 8, 9});
  CHECK(first_row("modular_addition").tokens.values() == std::vector<double>{95, 2, 97, 67, 95, 97});
}

TEST_CASE("tasks: with a smallest length all lengths come up, and the mask tells them") {
  const auto task = make_task("reverse", {.length = 6, .min_length = 4}, Rng(1));
  CHECK(task->vocabulary() == 14);  // 12 symbols, the separator and PAD
  CHECK(task->context() == 12);
  CHECK(task->description() == "task reverse of 4 to 6 symbols of 12");
  const Batch batch = task->next(50);
  std::set<Index> lengths;
  const std::vector<Sequence> rows = rows_of(batch);
  for (Index row = 0; row < 50; ++row) {
    const auto* mask = batch.mask.data<std::int32_t>() + row * 12;
    const Index length = std::count(mask, mask + 12, 1);
    lengths.insert(length);
    const Sequence& sequence = rows[static_cast<std::size_t>(row)];
    CHECK(sequence.tokens[static_cast<std::size_t>(length / 2)] == 12);  // the separator
    CHECK(std::count(sequence.tokens.begin(), sequence.tokens.end(), 13) == 12 - length);
    CHECK(std::count(sequence.targets.begin(), sequence.targets.end(), kIgnoreIndex) == 12 - length / 2);
  }
  CHECK(lengths == std::set<Index>{8, 10, 12});
}

TEST_CASE("tasks: with one length there is no mask and no PAD") {
  const auto task = make_task("copy", {.length = 3, .min_length = 3}, Rng(1));
  CHECK(task->vocabulary() == 13);
  CHECK_FALSE(task->next(2).mask.defined());
}

TEST_CASE("tasks: an encoder says the answer, an encoder-decoder answers the source") {
  const auto masked = make_task("sort", {.objective = {.objective = Objective::masked}}, Rng(1));
  CHECK(masked->vocabulary() == 14);
  CHECK(masked->context() == 13);
  for (const Sequence& row : rows_of(masked->next(20))) {
    CHECK(std::count(row.tokens.begin() + 7, row.tokens.end(), 13) == 6);  // MASK
    CHECK(std::is_sorted(row.targets.end() - 6, row.targets.end()));
  }
  const auto translation = make_task("sort", {.objective = {.objective = Objective::translation}}, Rng(1));
  CHECK(translation->vocabulary() == 14);
  CHECK(translation->context() == 6);
  const Batch batch = translation->next(1);
  CHECK(batch.source.shape() == Shape{1, 6});
  std::vector<double> sorted = batch.source.values();
  std::sort(sorted.begin(), sorted.end());
  CHECK(batch.targets.values() == sorted);
  CHECK(batch.tokens.values()[0] == 13);  // BOS
}

TEST_CASE("tasks: modular addition is a question to an encoder and to an encoder-decoder") {
  const auto row = [](Objective objective) {
    return make_task("modular_addition", {.modulus = 5, .objective = {.objective = objective}}, Rng(1))->next(1);
  };
  const Batch masked = row(Objective::masked);
  CHECK(masked.tokens.values()[2] == 5);
  CHECK(masked.tokens.values()[3] == 6);  // MASK
  const Batch translation = row(Objective::translation);
  const std::vector<double> source = translation.source.values();
  CHECK(translation.targets.values() == std::vector<double>{std::fmod(source[0] + source[1], 5.0)});
}

TEST_CASE("tasks: a smallest length beyond the length is refused") {
  CHECK_THROWS_WITH_AS(make_task("copy", {.length = 6, .min_length = 7}, Rng(1)),
                       "task copy: the smallest length must lie in [1, 6], but is 7", Error);
}
