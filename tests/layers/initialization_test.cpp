#include <doctest/doctest.h>

#include <cmath>

#include <jnorm/core/error.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/layers/linear.hpp>
#include <jnorm/layers/transformer.hpp>

using namespace jnorm;

namespace {

using Side = SublayerPlace::Side;

// Six digits are given.
doctest::Approx about(double value) { return doctest::Approx(value).epsilon(2e-6); }

// Root of the mean square of a new 512 -> 64 map's 32768 weights. Its own deviation is 1 / sqrt(2 * 32768) = 0.4% of
// it.
double measured_deviation(Initialization initialization) {
  Rng rng(1);
  const Linear map(512, 64, {.initialization = initialization}, rng);
  const Tensor& weight = map.parameters()[0]->value();
  return norm(weight) / std::sqrt(static_cast<double>(weight.size()));
}

}  // namespace

TEST_CASE("initialization: kaiming counts the features that go in, whatever the layout") {
  CHECK(weight_deviation(Initialization::kaiming, 512, 64) == 0.0625);
  CHECK(measured_deviation(Initialization::kaiming) == doctest::Approx(0.0625).epsilon(0.02));
}

TEST_CASE("initialization: xavier counts both sides") {
  CHECK(weight_deviation(Initialization::xavier, 512, 64) == doctest::Approx(std::sqrt(2.0 / 576.0)));
  CHECK(measured_deviation(Initialization::xavier) == doctest::Approx(std::sqrt(2.0 / 576.0)).epsilon(0.02));
}

TEST_CASE("initialization: gpt2's weights have the deviation 0.02, whatever their sizes") {
  CHECK(weight_deviation(Initialization::gpt2, 512, 64) == 0.02);
  CHECK(measured_deviation(Initialization::gpt2) == doctest::Approx(0.02).epsilon(0.02));
}

TEST_CASE("initialization: biases start at 0") {
  Rng rng(1);
  const Linear map(3, 2, {}, rng);
  CHECK(map.parameters()[1]->value().values() == std::vector<double>{0, 0});
}

// What writes into the stream, by the root of how often that happens: 2 a layer, 3 beside an encoder.
TEST_CASE("initialization: gpt2 divides the output maps by the root of the stack's additions to the stream") {
  CHECK(gpt2_gains({.layers = 8}) == BranchGains{.inner = 1.0, .output = 0.25});
  CHECK(gpt2_gains({.layers = 12, .side = Side::decoder}).output == about(1.0 / 6.0));
  CHECK(gpt2_gains({.layers = 8, .side = Side::encoder}).output == 0.25);
}

// 0.67 N^(-1/4) and (9 N)^(-1/4), with N = 6 layers in each stack.
TEST_CASE("initialization: tfixup's gains are of all of a branch's maps but queries and keys") {
  const BranchGains encoder = starting_gains(Initialization::tfixup, {.layers = 6, .side = Side::encoder}, {});
  CHECK(encoder.inner == about(0.428092));
  CHECK(encoder.output == about(0.428092));
  const BranchGains decoder = starting_gains(Initialization::tfixup, {.layers = 6, .side = Side::decoder}, {});
  CHECK(decoder.inner == about(0.368894));
  CHECK(decoder.output == about(0.368894));
  CHECK(starting_gains(Initialization::tfixup, {.layers = 6}, {}) == decoder);
}

TEST_CASE("initialization: tfixup's embeddings have the deviation (9 N)^(-1/4) dim^(-1/2)") {
  CHECK(embedding_deviation(Initialization::tfixup, {.dim = 64, .layers = 6}) == about(0.0461117));
  TransformerConfig config{.kind = ModelKind::encoder_decoder, .vocabulary = 512, .layers = 6};
  config.initialization = Initialization::tfixup;
  const Tensor table = Transformer(config, Rng(1)).state()[0].second;
  CHECK(norm(table) / std::sqrt(static_cast<double>(table.size())) == doctest::Approx(0.0461117).epsilon(0.02));
}

TEST_CASE("initialization: deepnorm brings DeepNorm's gains to any placement") {
  const BranchGains gains = starting_gains(Initialization::deepnorm, {.layers = 6}, {.output = 0.5});
  CHECK(gains.inner == about(0.379918));
  CHECK(gains.output == about(0.379918));
}

TEST_CASE("initialization: xavier and kaiming leave the gains to the placement") {
  const BranchGains gains{.inner = 0.25, .output = 0.5};
  CHECK(starting_gains(Initialization::xavier, {.layers = 6}, gains) == gains);
  CHECK(starting_gains(Initialization::kaiming, {.layers = 6}, gains) == gains);
}

TEST_CASE("initialization: GPT-2's scale isn't applied twice where both placement and initialization have it") {
  const SublayerPlace place{.layers = 8};
  const BranchGains gains = Placement::branch_scaled.rule(place).starting_gains;
  CHECK(starting_gains(Initialization::gpt2, place, gains).output == 0.25);
}

TEST_CASE("initialization: embeddings add up to variance 1, alone or beside positions, or scaled later") {
  CHECK(embedding_deviation(Initialization::xavier, {.dim = 64}) == 1.0);
  CHECK(embedding_deviation(Initialization::xavier, {.dim = 64, .addends = 2}) == about(std::sqrt(0.5)));
  CHECK(embedding_deviation(Initialization::xavier, {.dim = 64, .scaled = true}) == 0.125);
  CHECK(embedding_deviation(Initialization::xavier, {.dim = 64, .tied = true}) == 0.125);
  CHECK(embedding_deviation(Initialization::gpt2, {.dim = 64}) == 0.02);
}

TEST_CASE("initialization: names go both ways") {
  for (const Initialization each : initializations()) CHECK(initialization_from_string(to_string(each)) == each);
}

TEST_CASE("initialization: an unknown name is told the nearest one") {
  CHECK_THROWS_WITH_AS(
      initialization_from_string("xaver"),
      "initialization: expected one of xavier, kaiming, gpt2, tfixup, deepnorm, got \"xaver\"; did you mean xavier?",
      Error);
}
