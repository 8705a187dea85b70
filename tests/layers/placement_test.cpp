#include <doctest/doctest.h>

#include <jnorm/core/error.hpp>
#include <jnorm/layers/placement.hpp>

using namespace jnorm;
using doctest::Approx;

namespace {

using Side = SublayerPlace::Side;

// Six digits are given.
Approx about(double value) { return Approx(value).epsilon(2e-6); }

SublayerPlace of_both(Side side) {
  const Index layers = side == Side::encoder ? 12 : 6;
  return {.layer = 1, .layers = layers, .side = side, .encoder_layers = 12, .decoder_layers = 6};
}

}  // namespace

TEST_CASE("placement: every placement is found by its name") {
  for (const Placement* placement : Placement::all()) CHECK(&Placement::named(placement->name) == placement);
  CHECK(Placement::all().size() == 15);
}

TEST_CASE("placement: every placement says its formula, its Jacobian and its source") {
  for (const Placement* placement : Placement::all()) {
    CAPTURE(std::string(placement->name));
    for (const char* text : {placement->formula, placement->jacobian, placement->source}) {
      CHECK(std::string_view(text).size() > 2);
    }
  }
}

TEST_CASE("placement: a model whose stream no norm ends has a final norm by default") {
  for (const Placement* placement : Placement::all()) {
    const std::string_view name = placement->name;
    CAPTURE(std::string(name));
    // residual's second stream is normalized at the end; rezero and none do without norms altogether.
    const bool without =
        name == "post" || name == "deepnorm" || name == "b2t" || name == "keel" || name == "rezero" || name == "none";
    CHECK(placement->final_norm == !without);
  }
}

TEST_CASE("placement: a stream is normalized where every layer's sum is") {
  for (const Placement* placement : Placement::all()) {
    const std::string_view name = placement->name;
    CAPTURE(std::string(name));
    CHECK(placement->normalizes_stream() ==
          (name == "post" || name == "deepnorm" || name == "b2t" || name == "keel" || name == "residual"));
  }
}

TEST_CASE("placement: queries and keys are normalized by default in reordered alone") {
  for (const Placement* placement : Placement::all()) {
    CHECK(placement->qk_norm == (std::string_view(placement->name) == "reordered"));
  }
}

TEST_CASE("placement: two streams there are in residual alone, in all of its rules") {
  for (const Placement* placement : Placement::all()) {
    const bool expected = std::string_view(placement->name) == "residual";
    CHECK(placement->two_streams == expected);
    CHECK(placement->rule({}).two_streams == expected);
  }
}

TEST_CASE("placement: deepnorm's alpha and beta for a decoder or an encoder of N layers") {
  const auto rule = [](Index layers) { return Placement::deepnorm.rule({.layer = 2, .layers = layers}); };
  CHECK(rule(6).skip_scale == about(1.861210));
  CHECK(rule(6).starting_gains.inner == about(0.379918));
  CHECK(rule(6).starting_gains.output == about(0.379918));
  CHECK(rule(12).skip_scale == about(2.213364));
  CHECK(rule(12).starting_gains.output == about(0.319472));
}

// 0.81 (12^4 6)^(1/16), 0.87 (12^4 6)^(-1/16); (3 6)^(1/4), (12 6)^(-1/4).
TEST_CASE("placement: deepnorm's alpha and beta for an encoder of 12 layers with a decoder of 6") {
  const ResidualRule encoder = Placement::deepnorm.rule(of_both(Side::encoder));
  CHECK(encoder.skip_scale == about(1.686222));
  CHECK(encoder.starting_gains.output == about(0.417916));
  const ResidualRule decoder = Placement::deepnorm.rule(of_both(Side::decoder));
  CHECK(decoder.skip_scale == about(2.059767));
  CHECK(decoder.starting_gains.inner == about(0.343295));
}

TEST_CASE("placement: branch_scaled divides the output maps by the root of the number of additions to the stream") {
  const BranchGains alone = Placement::branch_scaled.rule({.layer = 1, .layers = 8}).starting_gains;
  CHECK(alone.output == 0.25);
  CHECK(alone.inner == 1.0);
  CHECK(Placement::branch_scaled.rule(of_both(Side::decoder)).starting_gains.output == about(0.235702));  // 18^(-1/2)
}

TEST_CASE("placement: mix of six layers is post in the first one alone") {
  for (Index layer = 1; layer <= 6; ++layer) {
    CHECK(Placement::mix.rule({.layer = layer, .layers = 6}).norm_sum == (layer == 1));
  }
}

TEST_CASE("placement: an unknown one is told the nearest name") {
  CHECK_THROWS_WITH_AS(Placement::named("psot"), doctest::Contains("got \"psot\"; did you mean post?"), Error);
}
