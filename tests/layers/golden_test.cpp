// Transformer blocks against PyTorch's own, nn.TransformerEncoderLayer with a causal mask: the output, and the
// gradients of the input and of all parameters.

#include "support/golden.hpp"

#include <doctest/doctest.h>

#include <jnorm/core/dtype.hpp>
#include <jnorm/layers/transformer.hpp>

using namespace jnorm;

namespace {

// "parameter.ffn.norm.gamma" -> "ffn.norm.gamma", for all names that start so.
NamedTensors with_prefix(const GoldenEntry& entry, const std::string& prefix) {
  NamedTensors result;
  for (const auto& [name, tensor] : entry) {
    if (name.starts_with(prefix)) result.emplace_back(name.substr(prefix.size()), tensor);
  }
  return result;
}

void check_block(const Placement& placement, DType dtype, double tolerance) {
  const auto file = load_golden("blocks.safetensors");
  const GoldenEntry& golden = file.at(placement.name);
  Block block({.dim = 8, .heads = 2, .ffn = 12, .placement = placement, .activation = Activation::gelu}, Rng(1));
  block.to(dtype);
  block.load_state(with_prefix(golden, "parameter."));

  Tape tape;
  const Var x = tape.variable(golden.at("input").to(dtype));
  const Var y = block(x);
  tape.backward(y, {.cotangent = golden.at("cotangent").to(dtype)});

  CHECK(golden_error(y.value(), golden.at("output")) <= tolerance);
  CHECK(golden_error(x.gradient(), golden.at("gradient")) <= tolerance);
  const NamedTensors gradients = with_prefix(golden, "gradient.");
  const auto parameters = block.named_parameters();
  CHECK(gradients.size() == parameters.size());
  for (const auto& named : parameters) {
    const auto& name = named.first;
    CAPTURE(name);
    // The key's bias moves all scores of a query alike: its gradient is 0 but for the rounding of terms of size 1.
    const double smallest_scale = name == "attention.branch.key.bias" ? 1.0 : 0.1;
    CHECK(golden_error(named.second->gradient(), golden.at("gradient." + name), smallest_scale) <= tolerance);
  }
}

}  // namespace

TEST_CASE("golden: a Pre-Norm block is PyTorch's, forward and backward") {
  check_block(Placement::pre, DType::float64, 1e-13);
  check_block(Placement::pre, DType::float32, 4e-6);
}

TEST_CASE("golden: a Post-Norm block is PyTorch's, forward and backward") {
  check_block(Placement::post, DType::float64, 1e-13);
  check_block(Placement::post, DType::float32, 4e-6);
}
