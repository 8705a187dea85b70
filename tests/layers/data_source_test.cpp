#include <jnorm/layers/data_source.hpp>

#include <cmath>

#include <doctest/doctest.h>

#include <jnorm/core/error.hpp>
#include <jnorm/core/kernels.hpp>

using namespace jnorm;

namespace {

constexpr double kIgnored = kIgnoreIndex;

// The prompts 1, 1 1, 1 1 1, 1, ... with answers as long of 2: 3 tokens, one of which is a separator.
class Stairs : public DataSource {
 public:
  explicit Stairs(ObjectiveOptions options) : DataSource(Rng(1), options) {}
  Index own_vocabulary() const override { return 3; }
  std::string description() const override { return "stairs"; }

 protected:
  Example draw(Part /*part*/, Rng& rng) const override {
    const std::size_t length = rng.state().counter % 3 + 1;
    rng.skip(1);
    return {
        .prompt = std::vector<std::int32_t>(length, 1), .separator = 0, .answer = std::vector<std::int32_t>(length, 2)};
  }
  ExampleSize longest() const override { return {.prompt = 3, .separator = true, .answer = 3}; }
  bool lengths_vary() const override { return true; }
};

using Values = std::vector<double>;

}  // namespace

TEST_CASE("data source: short sequences are filled up with PAD, which the mask and the targets leave out") {
  Stairs stairs({.objective = Objective::masked});
  const Batch batch = stairs.next(3);  // MASK is 3, PAD 4
  CHECK(batch.tokens.values() == Values{1, 0, 3, 4, 4, 4, 4, 1, 1, 0, 3, 3, 4, 4, 1, 1, 1, 0, 3, 3, 3});
  CHECK(batch.mask.values() == Values{1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1});
  CHECK(batch.targets.values() == Values{kIgnored, kIgnored, 2,        kIgnored, kIgnored, kIgnored, kIgnored,  //
                                         kIgnored, kIgnored, kIgnored, 2,        2,        kIgnored, kIgnored,  //
                                         kIgnored, kIgnored, kIgnored, kIgnored, 2,        2,        2});
  CHECK_FALSE(batch.source.defined());
  CHECK_FALSE(batch.source_mask.defined());
}

TEST_CASE("data source: the source is filled up with PAD and has a mask of its own") {
  Stairs stairs({.objective = Objective::translation});
  const Batch batch = stairs.next(2);  // BOS is 3, PAD 4
  CHECK(batch.source.values() == Values{1, 4, 4, 1, 1, 4});
  CHECK(batch.source_mask.values() == Values{1, 0, 0, 1, 1, 0});
  CHECK(batch.tokens.values() == Values{3, 4, 4, 3, 2, 4});
  CHECK(batch.mask.values() == Values{1, 0, 0, 1, 1, 0});
  CHECK(batch.targets.values() == Values{2, kIgnored, kIgnored, 2, 2, kIgnored});
}

TEST_CASE("data source: the vocabulary counts the special tokens, and the context the longest sequence") {
  CHECK(Stairs({.objective = Objective::next_token}).vocabulary() == 4);
  CHECK(Stairs({.objective = Objective::next_token}).context() == 6);
  CHECK(Stairs({.objective = Objective::masked}).vocabulary() == 5);
  CHECK(Stairs({.objective = Objective::masked}).context() == 7);
  CHECK(Stairs({.objective = Objective::translation}).vocabulary() == 5);
  CHECK(Stairs({.objective = Objective::translation}).context() == 3);
}

TEST_CASE("data source: a mask fraction outside (0, 1] is refused") {
  CHECK_THROWS_WITH_AS(Stairs({.mask_fraction = 0.0}), "data: the mask fraction must lie in (0, 1], but is 0", Error);
  CHECK_THROWS_WITH_AS(Stairs({.mask_fraction = 1.5}), "data: the mask fraction must lie in (0, 1], but is 1.5", Error);
  CHECK_THROWS_AS(Stairs({.mask_fraction = std::nan("")}), Error);
}

TEST_CASE("lengths: all from the least to the most are drawn, and a least of 0 stands for the most") {
  const Lengths lengths = Lengths::from("x", 2, 4);
  Rng rng(1);
  std::vector<int> drawn(6);
  for (int i = 0; i < 3000; ++i) ++drawn[static_cast<std::size_t>(lengths.draw(rng))];
  CHECK(drawn[2] + drawn[3] + drawn[4] == 3000);
  for (const std::size_t length : {2, 3, 4}) CHECK(std::abs(drawn[length] - 1000) < 130);  // five standard deviations
  CHECK(lengths.in_words() == "2 to 4");
  CHECK_FALSE(Lengths::from("x", 0, 4).vary());
  CHECK(Lengths::from("x", 0, 4).in_words() == "4");
}

TEST_CASE("lengths: a length that doesn't vary draws nothing") {
  Rng rng(1);
  CHECK(Lengths::from("x", 4, 4).draw(rng) == 4);
  CHECK(rng.state().counter == 0);
}

TEST_CASE("lengths: a least length that is negative or more than the most is refused") {
  CHECK_THROWS_WITH_AS(Lengths::from("x", 5, 4), "x: the smallest length must lie in [1, 4], but is 5", Error);
  CHECK_THROWS_WITH_AS(Lengths::from("x", -1, 4), "x: the smallest length must lie in [1, 4], but is -1", Error);
}

TEST_CASE(
    "expect_vocabulary: a model with fewer tokens than the data is refused with both numbers, one with more is not") {
  const Stairs stairs({.objective = Objective::masked});
  CHECK_NOTHROW(expect_vocabulary(5, stairs));
  CHECK_NOTHROW(expect_vocabulary(30522, stairs));
  CHECK_THROWS_WITH_AS(expect_vocabulary(4, stairs),
                       "vocabulary: the model has 4 tokens, but the data need 5 (3 of their own, 2 special); take a "
                       "model with more tokens, or other data",
                       Error);
}
