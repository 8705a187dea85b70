#include <jnorm/layers/probe.hpp>

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <jnorm/autograd/linear_map.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/core/random.hpp>
#include <support/close.hpp>

using namespace jnorm;
using doctest::Approx;
using doctest::Contains;

namespace {

constexpr double kRounding = 1e-12;

TransformerConfig small(const Placement& placement, NormKind norm = NormKind::layer) {
  return {.vocabulary = 11,
          .layers = 3,
          .dim = 6,
          .heads = 2,
          .ffn = 10,
          .context = 4,
          .placement = placement,
          .norm = norm,
          .norm_groups = 2,
          .activation = Activation::gelu,
          .dtype = DType::float64};
}

// As after some training: nothing is 0 or 1 any more, gamma least of all.
void disturb(Transformer& model) {
  Rng rng(7);
  for (Parameter* parameter : model.parameters()) {
    const Tensor noise = randn(parameter->shape(), rng, parameter->value().dtype());
    parameter->set_value(add(parameter->value(), affine(noise, 0.3, 0.0)));
  }
}

void check_parts(const TransformerConfig& config) {
  Transformer model(config, Rng(1));
  disturb(model);
  const ProbeReport report = probe(model);
  CAPTURE(std::string(config.placement.name));
  CAPTURE(to_string(config.norm));
  CAPTURE(to_string(config.kind));
  CAPTURE(to_string(config.architecture));
  CAPTURE(config.has_qk_norm());
  CHECK(report.largest_decomposition_error() <= kDecompositionTolerance);
  CHECK(report.layers[0].jacobian.identity_distance > 0.1);
}

Tensor some_input() {
  Rng rng(8);
  return randn({1, 4, 6}, rng, DType::float64);
}

const std::vector<std::int32_t> kTokens{3, 1, 4, 1};
const std::vector<std::int32_t> kTargets{1, 4, 1, 5};

}  // namespace

TEST_CASE("probe: every Jacobian is what the placement says, with any norm, in every kind of model") {
  for (const Placement* placement : Placement::all()) {
    for (const NormKind norm : norm_kinds()) {
      for (const ModelKind kind : model_kinds()) {
        TransformerConfig config = small(*placement, norm);
        config.kind = kind;
        config.layers = 4;  // of which mix has one that is post
        check_parts(config);
      }
    }
  }
}

TEST_CASE("probe: every Jacobian is what the placement says, with QK-norm and without, in every architecture") {
  for (const Placement* placement : Placement::all()) {
    for (const Architecture architecture : architectures()) {
      for (const bool qk_norm : {false, true}) {
        TransformerConfig config = small(*placement);
        apply_architecture(config, architecture);
        config.placement = *placement;
        config.qk_norm = qk_norm;
        config.layers = 2;
        config.dim = 8;
        check_parts(config);
      }
    }
  }
}

TEST_CASE("probe: the parts of norms without gamma, partial RMSNorm and another alpha make up the whole as well") {
  for (const Placement* placement : Placement::all()) {
    for (const NormKind norm : norm_kinds()) {
      TransformerConfig config = small(*placement, norm);
      config.norm_affine = false;
      config.residual_scale = 0.7;
      check_parts(config);
    }
    TransformerConfig partial = small(*placement, NormKind::rms);
    partial.norm_fraction = 0.5;
    check_parts(partial);
    partial.norm_affine = false;
    check_parts(partial);
  }
}

TEST_CASE("probe: BatchNorm's Jacobian is that of its running statistics") {
  Transformer model(small(Placement::pre, NormKind::batch), Rng(1));
  for (Buffer* buffer : model.buffers()) {
    if (buffer->name == "running_variance") buffer->value = full({6}, 4.0, DType::float64);
  }
  const ProbeReport report = probe(model);
  CHECK(report.layers[0].sublayers[0].norm_sigma_max == Approx(0.5).epsilon(1e-5));
  CHECK(report.largest_decomposition_error() <= kDecompositionTolerance);
}

TEST_CASE("probe: tokens for a model with an encoder come with a source") {
  TransformerConfig config = small(Placement::post);
  config.kind = ModelKind::encoder_decoder;
  const Transformer model(config, Rng(1));
  const Tensor tokens = indices({1, 4}, kTokens);
  const ProbeReport report = probe(model, {.tokens = tokens, .source = tokens, .targets = tokens});
  CHECK(report.largest_decomposition_error() <= kDecompositionTolerance);
  CHECK(report.layers[0].sublayers.size() == 3);
  CHECK(report.layers[0].sublayers[1].name == "cross_attention");
  CHECK_THROWS_WITH_AS(probe(model, {.tokens = tokens}), Contains("expected a source for the encoder, got none"),
                       Error);
}

TEST_CASE("probe: a float32 model is measured in float64") {
  TransformerConfig config = small(Placement::post);
  config.dtype = DType::float32;
  CHECK(probe(Transformer(config, Rng(1))).largest_decomposition_error() <= kDecompositionTolerance);
}

TEST_CASE("probe: float32 arithmetic is there for comparison, and shows in the decomposition") {
  const double error =
      probe(Transformer(small(Placement::pre), Rng(1)), {.dtype = DType::float32}).largest_decomposition_error();
  CHECK(error > kDecompositionTolerance);
  CHECK(error < 1e-4);
}

// LayerNorm over two features and RMSNorm over one leave eps / s^3 of the derivative, which rounding blurs.
TEST_CASE("probe: where a norm leaves next to nothing, rounding isn't taken for a fault") {
  for (const Placement* placement : Placement::all()) {
    for (const NormKind norm : {NormKind::layer, NormKind::rms, NormKind::scale}) {
      CAPTURE(std::string(placement->name));
      CAPTURE(to_string(norm));
      TransformerConfig config = small(*placement, norm);
      config.dim = norm == NormKind::layer ? 2 : 1;
      config.heads = 1;
      const Transformer model(config, Rng(1));
      CHECK(probe(model).largest_decomposition_error() <= kDecompositionTolerance);
      CHECK(probe(model, {.dtype = DType::float32}).largest_decomposition_error() < 1e-3);
    }
  }
}

TEST_CASE("probe: layers and sublayers come in the order of computation") {
  const ProbeReport report = probe(Transformer(small(Placement::pre), Rng(1)));
  REQUIRE(report.layers.size() == 3);
  CHECK(report.layers[2].layer == 2);
  REQUIRE(report.layers[2].sublayers.size() == 2);
  CHECK(report.layers[2].sublayers[0].name == "attention");
  CHECK(report.layers[2].sublayers[1].name == "ffn");
  CHECK(report.gradient_norms.size() == 4);
  CHECK(report.mean_squares.size() == 4);
}

TEST_CASE("probe: the figures are those of the tape's Jacobians") {
  Transformer model(small(Placement::post), Rng(1));
  disturb(model);
  const ProbeReport report = probe(model, {.x0 = some_input()});

  Tape tape;
  const Var x0 = tape.constant(some_input());
  const Var x3 = model.stack(x0);
  const LinearMap block = linearize(tape.output("blocks.1"), tape.input("blocks.1"));
  const JacobianMeasures& measures = report.layers[1].jacobian;
  CHECK(measures.identity_distance == Approx(block.distance_to_identity()).epsilon(kRounding));
  CHECK(measures.sigma_max == Approx(block.spectral_norm()).epsilon(kRounding));
  CHECK(std::fabs(measures.sigma_min - block.singular_values().at({23})) < kRounding);

  const LinearMap branch = linearize(tape.output("blocks.1.ffn.branch"), tape.input("blocks.1.ffn.branch"));
  const SublayerReport& ffn = report.layers[1].sublayers[1];
  CHECK(ffn.branch_norm == Approx(branch.frobenius_norm() / std::sqrt(24.0)).epsilon(kRounding));
  const LinearMap norm = linearize(tape.output("blocks.1.ffn.norm"), tape.input("blocks.1.ffn.norm"));
  CHECK(ffn.norm_sigma_max == Approx(norm.spectral_norm()).epsilon(kRounding));
  CHECK(ffn.norm_sigma_min < kRounding);

  const LinearMap product = linearize(x3, x0);
  CHECK(report.product.trace_over_n == Approx(product.trace() / 24.0).epsilon(kRounding));
  CHECK(report.gradient_norms[0] == Approx(product.frobenius_norm() / std::sqrt(24.0)).epsilon(kRounding));
  const LinearMap rest = linearize(x3, tape.output("blocks.1"));
  CHECK(report.gradient_norms[2] == Approx(rest.frobenius_norm() / std::sqrt(24.0)).epsilon(kRounding));
  CHECK(report.gradient_norms[3] == Approx(1.0).epsilon(kRounding));
  CHECK(report.mean_squares[0] == Approx(std::pow(jnorm::norm(some_input()), 2) / 24.0).epsilon(kRounding));
}

TEST_CASE("probe: a model without branches is the identity") {
  Transformer model(small(Placement::pre), Rng(1));
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (name.find("output.") != std::string::npos || name.find("down.") != std::string::npos) {
      parameter->set_value(zeros(parameter->shape(), DType::float64));
    }
  }
  const ProbeReport report = probe(model);
  CHECK(report.layers[1].jacobian.identity_distance == 0.0);
  CHECK(report.layers[1].sublayers[0].branch_norm == 0.0);
  CHECK(report.layers[1].jacobian.sigma_min == Approx(1.0));
  CHECK(report.product.trace_over_n == Approx(1.0));
  CHECK(report.product.median_sigma == Approx(1.0));
  CHECK(report.product.effective_rank == Approx(24.0));
}

TEST_CASE("probe: with targets, the gradient norms are the loss's") {
  Transformer model(small(Placement::pre), Rng(1));
  const Tensor tokens = indices({1, 4}, kTokens);
  const Tensor targets = indices({1, 4}, kTargets);
  const ProbeReport report = probe(model, {.tokens = tokens, .targets = targets});

  Tape tape;
  const Var loss = cross_entropy(model(tape, tokens), targets);
  const std::vector<Var> xs{tape.input("blocks.0"), tape.output("blocks.2")};
  const std::vector<Tensor> gradients = tape.gradients(loss, xs);
  CHECK(report.gradient_norms[0] == Approx(jnorm::norm(gradients[0])).epsilon(kRounding));
  CHECK(report.gradient_norms[3] == Approx(jnorm::norm(gradients[1])).epsilon(kRounding));
}

TEST_CASE("probe: without targets, tokens give the input alone") {
  Transformer model(small(Placement::pre), Rng(1));
  CHECK(probe(model, {.tokens = indices({1, 4}, kTokens)}).gradient_norms[3] == Approx(1.0));
}

TEST_CASE("probe: a drawn input depends on the seed and has variance 1 to begin with") {
  const Transformer model(small(Placement::pre), Rng(1));
  CHECK(probe(model, {.seed = 3}).mean_squares == probe(model, {.seed = 3}).mean_squares);
  CHECK(probe(model, {.seed = 3}).mean_squares != probe(model, {.seed = 4}).mean_squares);
  const double mean_square = probe(model, {.context = 32}).mean_squares[0];
  CHECK(mean_square == Approx(1.0).epsilon(0.4));  // of 192 numbers: it scatters by 0.1
}

TEST_CASE("probe: where the placement normalizes the residual stream, a drawn input is normalized too") {
  const ProbeReport report = probe(Transformer(small(Placement::post), Rng(1)));
  for (const double mean_square : report.mean_squares)
    CHECK(mean_square == Approx(1.0).epsilon(1e-3));  // eps / variance
}

TEST_CASE("probe: the model stays as it is") {
  Transformer model(small(Placement::pre), Rng(1));
  const NamedTensors before = model.state();
  model.parameters()[0]->add_gradient(ones(model.parameters()[0]->shape(), DType::float64));
  probe(model, {.tokens = indices({1, 4}, kTokens), .targets = indices({1, 4}, kTargets)});
  CHECK(model.training());
  CHECK(jnorm::norm(model.parameters()[0]->gradient()) == std::sqrt(66.0));
  for (std::size_t i = 0; i < before.size(); ++i) {
    CHECK((i == 0 || !model.parameters()[i]->has_gradient()));
    CHECK(jnorm::norm(subtract(before[i].second, model.parameters()[i]->value())) == 0.0);
  }
}

TEST_CASE("probe: reports its progress") {
  std::vector<Index> calls;
  probe(Transformer(small(Placement::pre), Rng(1)), {.on_layer = [&](Index done) { calls.push_back(done); }});
  CHECK(calls == std::vector<Index>{1, 2, 3});
}

TEST_CASE("probe: inputs that don't fit are refused") {
  const Transformer model(small(Placement::pre), Rng(1));
  const Tensor tokens = indices({1, 4}, kTokens);
  CHECK_THROWS_WITH_AS(probe(model, {.tokens = tokens.reshape({2, 2})}),
                       Contains("expected the tokens of one sequence, [1, T], got [2, 2]"), Error);
  CHECK_THROWS_WITH_AS(probe(model, {.tokens = tokens, .x0 = some_input()}), Contains("not both"), Error);
  CHECK_THROWS_WITH_AS(probe(model, {.targets = tokens}), Contains("targets need tokens"), Error);
  CHECK_THROWS_WITH_AS(probe(model, {.x0 = zeros({1, 4, 5})}),
                       Contains("expected x0 of shape [1, T, 6], got [1, 4, 5]"), Error);
  CHECK_THROWS_WITH_AS(probe(model, {.context = -1}), Contains("context must not be negative, but is -1"), Error);
}

TEST_CASE("probe: values that aren't finite are named, not measured") {
  Transformer model(small(Placement::pre), Rng(1));
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (name == "blocks.1.ffn.branch.up.weight") {
      parameter->set_value(full(parameter->shape(), std::numeric_limits<double>::quiet_NaN(), DType::float64));
    }
  }
  CHECK_THROWS_WITH_AS(probe(model), Contains("blocks.1.ffn.branch.up"), Error);
}
