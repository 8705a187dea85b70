// Whole blocks of every placement and every norm, with and without padding, against central differences in float64.

#include <doctest/doctest.h>

#include <cmath>

#include <jnorm/autograd/gradcheck.hpp>
#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/core/random.hpp>
#include <jnorm/layers/block.hpp>

using namespace jnorm;

namespace {

TransformerConfig small(const Placement& placement, NormKind norm) {
  return {.dim = 6,
          .heads = 2,
          .ffn = 8,
          .placement = placement,
          .norm = norm,
          .norm_groups = 2,
          .activation = Activation::gelu,
          .dtype = DType::float64};
}

// Padded at the end of the second sequence; causal attention there still sees a position that counts.
Tensor padding_mask() {
  const std::int32_t mask[] = {1, 1, 1, 1, 1, 0};
  return indices({2, 3}, mask);
}

// The first of four layers, in which mix is post. Nothing is 0 or 1 any more.
std::unique_ptr<Block> disturbed_block(const TransformerConfig& config) {
  auto block = std::make_unique<Block>(config, Rng(1), SublayerPlace{.layer = 1, .layers = 4});
  block->to(DType::float64);
  Rng rng(2);
  for (Parameter* parameter : block->parameters()) {
    const Tensor noise = randn(parameter->shape(), rng, DType::float64);
    parameter->set_value(add(parameter->value(), affine(noise, 0.3, 0.0)));
  }
  return block;
}

Tensor random_input(const TransformerConfig& config, std::uint64_t seed) {
  Rng rng(seed);
  return randn({2, 3, config.stream_width()}, rng, DType::float64);
}

// Both along one random direction of all parameters: the gradient's component, and the slope by differences of fourth
// order, whose truncation is about h^4 and whose rounding is 1e-16 / h.
void check_parameter_gradients(Block& block, const Tensor& x, const Tensor& cotangent, const Pass& pass) {
  Tape tape;
  tape.set_measuring(true);
  const auto loss = [&] {
    tape.reset();
    return sum(block(tape.constant(x), pass) * tape.constant(cotangent));
  };
  tape.backward(loss());
  Rng rng(5);
  std::vector<Tensor> values, directions;
  double component = 0.0;
  for (Parameter* parameter : block.parameters()) {
    values.push_back(parameter->value());
    directions.push_back(randn(parameter->shape(), rng, DType::float64));
    if (parameter->has_gradient()) component += dot(parameter->gradient(), directions.back());
  }
  const auto loss_at = [&](double shift) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      block.parameters()[i]->set_value(add(values[i], affine(directions[i], shift, 0.0)));
    }
    return loss().item();
  };
  const double h = 2e-5;
  const double slope = (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12 * h);
  CHECK(std::fabs(component - slope) < 1e-8 * std::max(1.0, std::fabs(slope)));
}

}  // namespace

TEST_CASE("block: the gradients of the input and of all parameters agree with central differences") {
  for (const Placement* placement : Placement::all()) {
    for (const NormKind norm : norm_kinds()) {
      for (const bool padded : {false, true}) {
        CAPTURE(std::string(placement->name));
        CAPTURE(to_string(norm));
        CAPTURE(padded);
        const TransformerConfig config = small(*placement, norm);
        const auto block = disturbed_block(config);
        const Pass pass{.mask = padded ? padding_mask() : Tensor()};
        const auto call = [&](std::span<const Var> xs) { return (*block)(xs[0], pass); };
        const GradientReport report = check_gradients(DifferentiableFunction(call), {random_input(config, 3)});
        CHECK_MESSAGE(report.passed(), to_string(report));
        check_parameter_gradients(*block, random_input(config, 3), random_input(config, 4), pass);
      }
    }
  }
}

TEST_CASE("block: what stands in a padded position changes nothing at the others, in training as well") {
  for (const Placement* placement : Placement::all()) {
    for (const NormKind norm : norm_kinds()) {
      CAPTURE(std::string(placement->name));
      CAPTURE(to_string(norm));
      TransformerConfig config = small(*placement, norm);
      config.kind = ModelKind::encoder;  // every position sees every other one that counts
      const auto block = disturbed_block(config);
      const Tensor x = random_input(config, 3);
      std::vector<double> values = x.values();
      const auto width = static_cast<std::size_t>(config.stream_width());
      for (std::size_t i = 5 * width; i < 6 * width; ++i) values[i] += 10.0;
      Tape tape;
      const Pass pass{.mask = padding_mask()};
      const std::vector<double> before = (*block)(tape.constant(x), pass).value().values();
      const std::vector<double> after =
          (*block)(tape.constant(tensor(x.shape(), values, DType::float64)), pass).value().values();
      for (std::size_t i = 0; i < 5 * width; ++i) CHECK(before[i] == after[i]);
    }
  }
}

TEST_CASE("block: a decoder beside an encoder has three sublayers, any other two") {
  const TransformerConfig config = small(Placement::pre, NormKind::layer);
  const auto names = [&](SublayerPlace::Side side) {
    const Block block(config, Rng(1), {.side = side, .encoder_layers = 1, .decoder_layers = 1});
    std::vector<std::string> all;
    for (const ResidualSublayer* sublayer : block.sublayers()) all.push_back(sublayer->name());
    return all;
  };
  CHECK(names(SublayerPlace::Side::alone) == std::vector<std::string>{"attention", "ffn"});
  CHECK(names(SublayerPlace::Side::encoder) == std::vector<std::string>{"attention", "ffn"});
  CHECK(names(SublayerPlace::Side::decoder) == std::vector<std::string>{"attention", "cross_attention", "ffn"});
}

// beta is on the value and output maps and on the feed-forward branch, and on neither queries nor keys.
TEST_CASE("block: deepnorm's gains are of values, outputs and the feed-forward branch alone") {
  const auto weights = [](const Placement& placement) {
    return Block(small(placement, NormKind::layer), Rng(1), {.layer = 1, .layers = 6}).state();
  };
  const NamedTensors scaled = weights(Placement::deepnorm), plain = weights(Placement::post);
  REQUIRE(scaled.size() == plain.size());
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    const std::string& name = scaled[i].first;
    CAPTURE(name);
    if (name.find(".weight") == std::string::npos) continue;
    const bool same = name.find("query") != std::string::npos || name.find("key") != std::string::npos;
    const double ratio = norm(scaled[i].second) / norm(plain[i].second);
    CHECK(ratio == doctest::Approx(same ? 1.0 : 0.379918).epsilon(2e-6));
  }
}
