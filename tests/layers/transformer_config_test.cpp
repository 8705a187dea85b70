#include <jnorm/layers/transformer_config.hpp>

#include <limits>

#include <doctest/doctest.h>

#include <jnorm/core/error.hpp>

using namespace jnorm;

namespace {

template <class Change>
void check_refused(const Change& change, const char* message) {
  TransformerConfig config;
  change(config);
  CHECK_THROWS_WITH_AS(config.validate(), message, Error);
}

}  // namespace

TEST_CASE("configuration: a feed-forward branch is 4 dim wide, a gated one 8/3 dim, rounded up to a multiple of 8") {
  TransformerConfig config{.dim = 64};
  CHECK(config.ffn_width() == 256);
  config.gated = true;
  CHECK(config.ffn_width() == 176);  // of 170.7
  config.dim = 48;
  CHECK(config.ffn_width() == 128);  // of 128
  config.ffn = 10;
  CHECK(config.ffn_width() == 10);
}

TEST_CASE("configuration: grouped queries have half as many key heads, unless those are odd in number or given") {
  TransformerConfig config{.heads = 6};
  CHECK(config.key_head_count() == 6);
  config.grouped_queries = true;
  CHECK(config.key_head_count() == 3);
  config.heads = 5;
  CHECK(config.key_head_count() == 5);
  config.key_heads = 1;
  CHECK(config.key_head_count() == 1);
}

TEST_CASE("configuration: an encoder beside a decoder has as many layers unless told otherwise") {
  TransformerConfig config{.kind = ModelKind::encoder_decoder, .layers = 4};
  CHECK(config.encoder_layer_count() == 4);
  config.encoder_layers = 7;
  CHECK(config.encoder_layer_count() == 7);
  CHECK(config.decoder_layer_count() == 4);
  config.kind = ModelKind::encoder;
  CHECK(config.encoder_layer_count() == 4);
  CHECK(config.decoder_layer_count() == 0);
}

TEST_CASE("configuration: final norm and QK-norm are the placement's unless told otherwise") {
  TransformerConfig config{.placement = Placement::reordered};
  CHECK(config.has_final_norm());
  CHECK(config.has_qk_norm());
  config.final_norm = false;
  config.qk_norm = false;
  CHECK_FALSE(config.has_final_norm());
  CHECK_FALSE(config.has_qk_norm());
}

TEST_CASE("configuration: heads are normalized by LayerNorm beside LayerNorm and by RMSNorm beside any other") {
  for (const NormKind norm : norm_kinds()) {
    TransformerConfig config{.dim = 64, .heads = 4, .norm = norm};
    CHECK(config.head_norm_config().kind == (norm == NormKind::layer ? NormKind::layer : NormKind::rms));
    CHECK(config.head_norm_config().dim == 16);
    CHECK(config.head_norm_config().fraction == 1.0);
  }
}

TEST_CASE("configuration: a residual scale replaces the placement's alpha and nothing else") {
  TransformerConfig config{.placement = Placement::deepnorm};
  const SublayerPlace place{.layers = 6};
  CHECK(config.rule(place).skip_scale == doctest::Approx(1.861210));
  config.residual_scale = 1.5;
  CHECK(config.rule(place).skip_scale == 1.5);
  CHECK(config.rule(place).starting_gains == Placement::deepnorm.rule(place).starting_gains);
}

TEST_CASE("configuration: with two streams the stack is twice as wide") {
  CHECK(TransformerConfig{.dim = 64}.stream_width() == 64);
  CHECK(TransformerConfig{.dim = 64, .placement = Placement::residual}.stream_width() == 128);
}

TEST_CASE("configuration: what can't be is refused in one line") {
  check_refused([](auto& c) { c.heads = 5; }, "heads: 5 don't divide dim 64");
  check_refused([](auto& c) { c.key_heads = 3; }, "key-heads: 3 don't divide heads 4");
  check_refused(
      [](auto& c) {
        c.norm = NormKind::group;
        c.norm_groups = 7;
      },
      "norm-groups: 7 don't divide dim 64");
  check_refused([](auto& c) { c.norm_groups = 0; }, "norm-groups: expected a positive number, got 0");
  check_refused([](auto& c) { c.norm_fraction = 0.0; }, "norm-fraction: expected a number in (0, 1], got 0");
  check_refused([](auto& c) { c.norm_fraction = 0.5; },
                "norm-fraction: only rms can look at a part of the features, but the norm is layer");
  check_refused([](auto& c) { c.norm_momentum = -0.1; }, "norm-momentum: expected a number in [0, 1], got -0.1");
  check_refused([](auto& c) { c.eps = -1.0; }, "eps: expected a finite number that isn't negative, got -1");
  check_refused([](auto& c) { c.residual_scale = std::numeric_limits<double>::infinity(); },
                "residual-scale: expected a finite number, got inf");
  check_refused(
      [](auto& c) {
        c.positions = Positions::rotary;
        c.heads = 64;
      },
      "positions: rotary ones rotate pairs of features, so a head's width must be even, but it is 1");
  check_refused([](auto& c) { c.dropout = 1.0; }, "dropout: expected a number in [0, 1), got 1");
  check_refused(
      [](auto& c) {
        c.precision = Precision::float16;
        c.dtype = DType::float64;
      },
      "precision: float16 activations need weights of float32, got float64");
}

TEST_CASE("configuration: names of kinds and precisions go both ways") {
  for (const ModelKind each : model_kinds()) CHECK(model_kind_from_string(to_string(each)) == each);
  for (const Precision each : precisions()) CHECK(precision_from_string(to_string(each)) == each);
}
