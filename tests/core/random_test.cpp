#include <jnorm/core/random.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>
#include <jnorm/core/parallel.hpp>

using namespace jnorm;

namespace {

using Block = std::array<std::uint32_t, 4>;

double mean_of_powers(const std::vector<double>& values, int power) {
  double sum = 0;
  for (const double value : values) sum += std::pow(value, power);
  return sum / static_cast<double>(values.size());
}

struct ThreadCountGuard {
  int before = thread_count();
  ~ThreadCountGuard() { set_thread_count(before); }
};

}  // namespace

// The three vectors are those of the Random123 distribution, tests/kat_vectors.
TEST_CASE("philox4x32 gives the published known answers") {
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a generator's seed is Philox's key, its counter and stream are Philox's counter") {
  const Rng rng =
      Rng::from_state({.seed = 0x299f31d0a4093822, .stream = 0x0370734413198a2e, .counter = 0x85a308d3243f6a88});
  CHECK(rng.block(0) == Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("the first draws of seed 0 are the first known answer") {
  CHECK(Rng(0).next_u64() == 0xe169c58d6627e8d5);
  CHECK(Rng(0).next_u32() == 0xe169c58d);
  CHECK(Rng(0).uniform() == 0.8805201978886144);  // ((0xe169c58d6627e8d5 >> 11) + 1) / 2^53
}

TEST_CASE("the smallest number of the unit interval is 2^-53, and its logarithm is finite") {
  CHECK(unit_interval(0) == 0x1p-53);
  CHECK(unit_interval(std::numeric_limits<std::uint64_t>::max()) == 1.0);
  const auto [first, second] = box_muller(unit_interval(0), 1.0);
  CHECK(first == doctest::Approx(8.571674348652905).epsilon(1e-14));  // sqrt(2 * 53 * ln 2)
  CHECK(std::isfinite(second));
}

TEST_CASE("box_muller gives radius sqrt(-2 ln u) at the angle 2 pi v") {
  const auto [x, y] = box_muller(std::exp(-2.0), 1.0 / 12.0);
  CHECK(x == doctest::Approx(std::sqrt(3.0)).epsilon(1e-14));
  CHECK(y == doctest::Approx(1.0).epsilon(1e-14));
}

TEST_CASE("every draw of a number consumes one block") {
  Rng rng(5);
  rng.next_u32();
  rng.next_u64();
  rng.uniform();
  rng.normal();
  rng.below(8);  // a power of two leaves no draw out
  CHECK(rng.state() == Rng::State{.seed = 5, .stream = 0, .counter = 5});
}

TEST_CASE("a generator goes on from a saved state with the same numbers") {
  Rng rng(7, 3);
  rng.normal();
  Rng resumed = Rng::from_state(rng.state());
  CHECK(resumed.next_u64() == rng.next_u64());
  CHECK(resumed.state() == rng.state());
}

TEST_CASE("below is in range and unbiased") {
  Rng rng(11);
  std::array<int, 6> counts{};
  for (int i = 0; i < 60000; ++i) ++counts[static_cast<std::size_t>(rng.below(6))];
  for (const int count : counts) CHECK(std::abs(count - 10000) < 456);  // 5 standard deviations of 91.3
}

TEST_CASE("below leaves out the draws that would bias it") {
  // Of n = 2^62 + 1 there are three whole multiples below 2^64, so a quarter of the draws must be left out.
  Rng rng(13);
  const Index n = (Index{1} << 62) + 1;
  for (int i = 0; i < 4000; ++i) CHECK(rng.below(n) < n);
  const double left_out = static_cast<double>(rng.state().counter) / 4000.0 - 1.0;
  CHECK(left_out == doctest::Approx(1.0 / 3.0).epsilon(0.16));  // 5 standard deviations of 0.0105
}

TEST_CASE("below 1 is always 0, and no range is refused") {
  Rng rng(1);
  CHECK(rng.below(1) == 0);
  CHECK_THROWS_WITH_AS(rng.below(0), "below: expected a positive number, got 0", Error);
  CHECK_THROWS_WITH_AS(rng.below(-3), "below: expected a positive number, got -3", Error);
}

TEST_CASE("a split stream follows from seed and name, not from what was drawn") {
  Rng rng(17);
  const Rng before = rng.split("data");
  rng.next_u64();
  CHECK(rng.split("data").state() == before.state());
  CHECK(before.state().seed == 17);
  CHECK(before.state().counter == 0);
  CHECK_FALSE(rng.split("dropout").state() == before.state());
  CHECK_FALSE(Rng(18).split("data").next_u64() == Rng(17).split("data").next_u64());
}

TEST_CASE("splitting a split stream depends on the whole path of names") {
  const Rng rng(17);
  CHECK_FALSE(rng.split("a").split("x").state() == rng.split("b").split("x").state());
  CHECK_FALSE(rng.split("a").split("x").state() == rng.split("x").split("a").state());
}

TEST_CASE("randn's elements don't depend on the number of threads") {
  const ThreadCountGuard guard;
  set_thread_count(1);
  Rng one(19);
  const std::vector<double> alone = randn({101, 99}, one).values();
  set_thread_count(4);
  Rng four(19);
  CHECK(randn({101, 99}, four).values() == alone);
}

TEST_CASE("elements 2k and 2k + 1 of a filled tensor come from the k-th block") {
  Rng rng(23);
  rng.next_u64();
  const Tensor x = randn({5}, rng, DType::float64);
  CHECK(rng.state().counter == 4);  // one draw, then ceil(5 / 2) blocks
  Rng third_pair = Rng::from_state({.seed = 23, .stream = 0, .counter = 3});
  CHECK(x.at({4}) == third_pair.normal());
}

TEST_CASE("narrower dtypes hold the float64 numbers, rounded") {
  Rng wide(29);
  const Tensor x = randn({7}, wide, DType::float64);
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    Rng narrow(29);
    CHECK(randn({7}, narrow, dtype).values() == x.to(dtype).values());
    CHECK(narrow.state() == wide.state());
  }
}

TEST_CASE("randn has the moments of the normal distribution") {
  Rng rng(31);
  const std::vector<double> values = randn({200000}, rng, DType::float64).values();
  // 5 standard errors of each moment's mean: sqrt(variance / n) with variances 1, 2, 15 and 96.
  CHECK(std::abs(mean_of_powers(values, 1)) < 0.0112);
  CHECK(std::abs(mean_of_powers(values, 2) - 1) < 0.0158);
  CHECK(std::abs(mean_of_powers(values, 3)) < 0.0433);
  CHECK(std::abs(mean_of_powers(values, 4) - 3) < 0.1096);
}

TEST_CASE("neighbouring elements of randn are uncorrelated") {
  Rng rng(37);
  const std::vector<double> values = randn({200000}, rng, DType::float64).values();
  double sum = 0;
  for (std::size_t i = 0; i + 1 < values.size(); ++i) sum += values[i] * values[i + 1];
  CHECK(std::abs(sum / 200000.0) < 0.0112);  // 5 standard errors of 1 / sqrt(n)
}

TEST_CASE("rand_uniform fills (low, high] evenly") {
  Rng rng(41);
  const std::vector<double> values = rand_uniform({120000}, rng, -2.0, 4.0, DType::float64).values();
  CHECK(*std::min_element(values.begin(), values.end()) > -2.0);
  CHECK(*std::max_element(values.begin(), values.end()) <= 4.0);
  CHECK(std::abs(mean_of_powers(values, 1) - 1) < 0.025);   // 5 standard errors: sqrt(3 / n)
  CHECK(std::abs(mean_of_powers(values, 2) - 4) < 0.0633);  // the same: E x^4 = 35.2
}

TEST_CASE("rand_uniform of an empty range is constant") {
  Rng rng(43);
  CHECK(rand_uniform({2}, rng, 0.5, 0.5).values() == std::vector<double>{0.5, 0.5});
}

TEST_CASE("rand_uniform reaches from the lowest to the highest finite number") {
  Rng rng(47);
  const double most = std::numeric_limits<double>::max();
  for (const double value : rand_uniform({100}, rng, -most, most, DType::float64).values()) {
    CHECK(std::isfinite(value));
  }
}

TEST_CASE("rand_uniform refuses bounds that are inverted or not finite in the dtype") {
  Rng rng(53);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH_AS(rand_uniform({2}, rng, 1.0, 0.0),
                       "rand_uniform: expected low <= high, both finite in float32, got low 1 and high 0", Error);
  CHECK_THROWS_AS(rand_uniform({2}, rng, nan, 1.0), Error);
  CHECK_THROWS_AS(rand_uniform({2}, rng, 0.0, nan), Error);
  CHECK_THROWS_AS(rand_uniform({2}, rng, 0.0, infinity), Error);
  CHECK_THROWS_AS(rand_uniform({2}, rng, 0.0, 1e5, DType::float16), Error);
  CHECK(rng.state().counter == 0);  // nothing was drawn
}

TEST_CASE("random_signs are -1 and 1, equally often") {
  Rng rng(59);
  const std::vector<double> values = random_signs({10000}, rng).values();
  CHECK(std::all_of(values.begin(), values.end(), [](double value) { return std::abs(value) == 1; }));
  CHECK(std::abs(mean_of_powers(values, 1)) < 0.05);  // 5 standard errors of 1 / sqrt(n)
}

TEST_CASE("scalars and empty tensors can be filled") {
  Rng rng(61);
  CHECK(randn({}, rng, DType::float64).item() == Rng(61).normal());
  CHECK(rng.state().counter == 1);
  CHECK(randn({3, 0}, rng).size() == 0);
  CHECK(rng.state().counter == 1);
}

TEST_CASE("integers cannot be filled with random numbers") {
  Rng rng(67);
  CHECK_THROWS_WITH_AS(randn({2}, rng, DType::int32), "randn: expected a floating-point dtype, got int32", Error);
  CHECK_THROWS_AS(rand_uniform({2}, rng, 0.0, 1.0, DType::int32), Error);
  CHECK_THROWS_AS(random_signs({2}, rng, DType::int32), Error);
}
