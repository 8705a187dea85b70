#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/error.hpp>
#include <jnorm/core/pool.hpp>
#include <jnorm/layers/clip.hpp>
#include <jnorm/layers/optimizer.hpp>
#include <jnorm/layers/transformer.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

const TransformerConfig kSmall{.vocabulary = 11, .layers = 2, .dim = 8, .heads = 2, .ffn = 12, .context = 6};

TransformerConfig small(const Placement& placement) {
  TransformerConfig config = kSmall;
  config.placement = placement;
  return config;
}

Tensor random_tokens(const Shape& shape, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::int32_t> values(static_cast<std::size_t>(shape.size()));
  for (std::int32_t& value : values) value = static_cast<std::int32_t>(rng.below(kSmall.vocabulary));
  return indices(shape, values);
}

std::map<std::string, std::vector<double>> weights_of(const Transformer& model) {
  std::map<std::string, std::vector<double>> weights;
  for (const auto& [name, tensor] : model.state()) weights[name] = tensor.values();
  return weights;
}

// All weights that `b` has are in `a`, and the same.
void check_shared_weights(const Transformer& a, const Transformer& b) {
  const auto in_a = weights_of(a);
  for (const auto& weight : weights_of(b)) {
    CAPTURE(weight.first);
    CHECK(in_a.at(weight.first) == weight.second);
  }
}

void check_refused(TransformerConfig config, const char* message) {
  CHECK_THROWS_WITH_AS(config.validate(), message, Error);
  CHECK_THROWS_AS(Transformer(config, Rng(1)), Error);
}

}  // namespace

TEST_CASE("transformer: Pre-Norm and Post-Norm models of one seed start with the same weights") {
  check_shared_weights(Transformer(small(Placement::pre), Rng(1)), Transformer(small(Placement::post), Rng(1)));
}

TEST_CASE("transformer: a deeper model starts with the shallower one's weights") {
  TransformerConfig deeper = kSmall;
  deeper.layers = 4;
  check_shared_weights(Transformer(deeper, Rng(1)), Transformer(kSmall, Rng(1)));
}

TEST_CASE("transformer: another seed gives other weights") {
  CHECK(weights_of(Transformer(kSmall, Rng(1))) != weights_of(Transformer(kSmall, Rng(2))));
}

TEST_CASE("transformer: layers of one model start differently") {
  const auto weights = weights_of(Transformer(kSmall, Rng(1)));
  CHECK(weights.at("blocks.0.ffn.branch.up.weight") != weights.at("blocks.1.ffn.branch.up.weight"));
  CHECK(weights.at("blocks.0.attention.branch.query.weight") != weights.at("blocks.0.attention.branch.key.weight"));
}

TEST_CASE("transformer: a float64 model starts with the float32 model's weights") {
  TransformerConfig wide = kSmall;
  wide.dtype = DType::float64;
  const Transformer model(wide, Rng(1));
  CHECK(model.state()[0].second.dtype() == DType::float64);
  CHECK(weights_of(model) == weights_of(Transformer(kSmall, Rng(1))));
}

TEST_CASE("transformer: its parameters are named by their place") {
  TransformerConfig config = kSmall;
  config.layers = 1;
  std::vector<std::string> names;
  for (const auto& [name, parameter] : Transformer(config, Rng(1)).named_parameters()) names.push_back(name);
  CHECK(names == std::vector<std::string>{
                     "token_embedding.table",
                     "position_embedding.table",
                     "blocks.0.attention.norm.gamma",
                     "blocks.0.attention.norm.beta",
                     "blocks.0.attention.branch.query.weight",
                     "blocks.0.attention.branch.query.bias",
                     "blocks.0.attention.branch.key.weight",
                     "blocks.0.attention.branch.key.bias",
                     "blocks.0.attention.branch.value.weight",
                     "blocks.0.attention.branch.value.bias",
                     "blocks.0.attention.branch.output.weight",
                     "blocks.0.attention.branch.output.bias",
                     "blocks.0.ffn.norm.gamma",
                     "blocks.0.ffn.norm.beta",
                     "blocks.0.ffn.branch.up.weight",
                     "blocks.0.ffn.branch.up.bias",
                     "blocks.0.ffn.branch.down.weight",
                     "blocks.0.ffn.branch.down.bias",
                     "final_norm.gamma",
                     "final_norm.beta",
                     "head.weight",
                 });
}

TEST_CASE("transformer: the number of parameters follows from the sizes") {
  const Index v = 11, c = 6, d = 8, f = 12, layers = 2;
  const Index block = 4 * d + 4 * (d * d + d) + (d * f + f) + (f * d + d);
  CHECK(Transformer(kSmall, Rng(1)).parameter_count() == v * d + c * d + layers * block + 2 * d + d * v);
}

TEST_CASE("transformer: the feed-forward branch is four times as wide as the stream by default") {
  TransformerConfig config = kSmall;
  config.ffn = 0;
  const Transformer model(config, Rng(1));
  CHECK(model.parameters()[14]->shape() == Shape{32, 8});
}

TEST_CASE("transformer: x_0 starts with variance 1") {
  TransformerConfig config{.dim = 64, .context = 64};
  Transformer model(config, Rng(1));
  Tape tape;
  const Var x = model.embed(tape, random_tokens({8, 64}, 1));
  CHECK(mean(square(x)).item() == doctest::Approx(1.0).epsilon(0.1));  // 11 + 64 rows of 64 independent numbers
}

TEST_CASE("transformer: the final norm is the placement's choice unless it is told") {
  TransformerConfig config = small(Placement::post);
  CHECK_FALSE(config.has_final_norm());
  config.final_norm = true;
  CHECK(weights_of(Transformer(config, Rng(1))).count("final_norm.gamma") == 1);
  config = small(Placement::pre);
  config.final_norm = false;
  CHECK(weights_of(Transformer(config, Rng(1))).count("final_norm.gamma") == 0);
}

TEST_CASE("transformer: a state of the other placement is refused, since one of them has a final norm") {
  Transformer pre(small(Placement::pre), Rng(1));
  const Transformer post(small(Placement::post), Rng(1));
  CHECK_THROWS_WITH_AS(pre.load_state(post.state()), doctest::Contains("2 missing: final_norm.gamma, final_norm.beta"),
                       Error);
}

TEST_CASE("transformer: the logits are the head's map of the normalized end of the stack") {
  Transformer model(kSmall, Rng(1));
  Tape tape;
  const Tensor tokens = random_tokens({2, 5}, 1);
  const Var logits = model(tape, tokens);
  CHECK(logits.shape() == Shape{2, 5, 11});
  const auto parameter = [&](const char* name) {
    for (const auto& [candidate, p] : model.named_parameters()) {
      if (candidate == name) return tape.parameter(*p);
    }
    return Var();
  };
  const Var end = model.stack(model.embed(tape, tokens));
  const Var by_hand =
      linear(layer_norm(end, parameter("final_norm.gamma"), parameter("final_norm.beta")), parameter("head.weight"));
  CHECK(logits.value().values() == by_hand.value().values());
}

TEST_CASE("transformer: a later token changes no earlier logit") {
  for (const Placement* placement : Placement::all()) {
    CAPTURE(placement->name);
    Transformer model(small(*placement), Rng(1));
    Tape tape;
    const std::int32_t first[] = {1, 2, 3, 4, 5}, second[] = {1, 2, 3, 9, 0};
    const Tensor before = model(tape, indices({1, 5}, first)).value();
    const Tensor after = model(tape, indices({1, 5}, second)).value();
    for (Index t = 0; t < 5; ++t) {
      CAPTURE(t);
      CHECK((before.at({0, t, 0}) == after.at({0, t, 0})) == (t < 3));
    }
  }
}

TEST_CASE("transformer: equal tokens at different positions differ") {
  Transformer model(kSmall, Rng(1));
  Tape tape;
  const std::int32_t tokens[] = {3, 3};
  const Var x = model.embed(tape, indices({1, 2}, tokens));
  CHECK(x.value().at({0, 0, 0}) != x.value().at({0, 1, 0}));
}

TEST_CASE("transformer: every part is found on the tape by its path") {
  Transformer model(small(Placement::pre), Rng(1));
  Tape tape;
  const Var logits = model(tape, random_tokens({1, 4}, 1));
  CHECK(tape.input("blocks").index() == tape.input("blocks.0.attention").index());
  CHECK(tape.output("blocks.0").index() == tape.input("blocks.1").index());
  CHECK(tape.output("blocks.0.attention").index() == tape.input("blocks.0.ffn").index());
  CHECK(tape.input("blocks.1.attention.norm").index() == tape.input("blocks.1").index());
  CHECK(tape.output("blocks.1.attention.norm").index() == tape.input("blocks.1.attention.branch").index());
  CHECK(tape.output("blocks.1.ffn.branch.down").index() == tape.output("blocks.1.ffn.branch").index());
  CHECK(tape.output("blocks").index() == tape.input("final_norm").index());
  CHECK(tape.output("head").index() == logits.index());
}

TEST_CASE("transformer: the gradient of every parameter agrees with central differences") {
  const auto check = [](const Placement& placement, NormKind norm) {
    TransformerConfig config = small(placement);
    config.norm = norm;
    config.activation = Activation::gelu;  // smooth, so that differences converge
    config.dtype = DType::float64;
    Transformer model(config, Rng(1));
    const Tensor tokens = random_tokens({2, 5}, 1), targets = random_tokens({2, 5}, 2);
    Tape tape;
    tape.backward(cross_entropy(model(tape, tokens), targets));
    const auto loss = [&] {
      tape.reset();
      return cross_entropy(model(tape, tokens), targets).item();
    };
    Rng rng(3);
    for (Parameter* const parameter : model.parameters()) {
      CAPTURE(parameter->path());
      const auto i = static_cast<std::size_t>(rng.below(parameter->value().size()));
      const Tensor value = parameter->value();
      const auto loss_at = [&](double shift) {
        std::vector<double> moved = value.values();
        moved[i] += shift;
        parameter->set_value(tensor(value.shape(), moved, DType::float64));
        return loss();
      };
      const double h = 1e-4;  // of fourth order: the truncation is about h^4, the rounding 1e-16 / h
      const double slope = (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12 * h);
      parameter->set_value(value);
      CHECK(std::fabs(parameter->gradient().values()[i] - slope) < 1e-10);
    }
  };
  check(Placement::pre, NormKind::layer);
  check(Placement::post, NormKind::layer);
  check(Placement::pre, NormKind::rms);
  check(Placement::post, NormKind::none);
}

TEST_CASE("transformer: steps of training lower the loss and, once warm, ask the system for no memory") {
  Transformer model(kSmall, Rng(1));
  AdamW optimizer(model.parameters(), {.learning_rate = 1e-2});
  const Tensor tokens = random_tokens({4, 6}, 1), targets = random_tokens({4, 6}, 2);
  Tape tape;
  const auto train = [&](int steps) {
    double loss = 0.0;
    for (int i = 0; i < steps; ++i) {
      tape.reset();
      const Var y = cross_entropy(model(tape, tokens), targets);
      tape.backward(y);
      clip_gradient_norm(model.parameters(), 1.0);
      optimizer.step();
      loss = y.item();
    }
    return loss;
  };
  const double at_first = train(3);
  const auto before = pool::statistics();
  const double at_last = train(20);
  const auto after = pool::statistics();
  CHECK(at_last < 0.5 * at_first);
  CHECK(after.requests > before.requests);
  CHECK(after.system_allocations == before.system_allocations);
}

TEST_CASE("transformer: conversion changes the arithmetic of the whole model") {
  Transformer model(kSmall, Rng(1));
  model.to(DType::float64);
  Tape tape;
  CHECK(model(tape, random_tokens({1, 3}, 1)).dtype() == DType::float64);
  CHECK(model.config().dtype == DType::float64);
}

TEST_CASE("transformer: more tokens than the context are refused with both sizes") {
  Transformer model(kSmall, Rng(1));
  Tape tape;
  CHECK_THROWS_WITH_AS(model(tape, random_tokens({1, 7}, 1), {"train.cpp", 17}),
                       "transformer: the sequences have 7 tokens, but the context is 6 (at train.cpp:17)", Error);
}

TEST_CASE("transformer: tokens that are no matrix, or none at all, are refused") {
  Transformer model(kSmall, Rng(1));
  Tape tape;
  CHECK_THROWS_WITH_AS(model(tape, random_tokens({5}, 1)), doctest::Contains("expected tokens [batch, time], got [5]"),
                       Error);
  CHECK_THROWS_WITH_AS(model(tape, random_tokens({2, 0}, 1)), doctest::Contains("at least one token"), Error);
  CHECK_THROWS_WITH_AS(model(tape, Tensor()), doctest::Contains("got an undefined tensor"), Error);
}

TEST_CASE("transformer: a token outside the vocabulary is refused by value, and says where") {
  Transformer model(kSmall, Rng(1));
  Tape tape;
  const std::int32_t tokens[] = {0, 11};
  CHECK_THROWS_WITH_AS(model(tape, indices({1, 2}, tokens)),
                       doctest::Contains("token 11 at position 1 is outside [0, 11) (token_embedding, at"), Error);
}

TEST_CASE("transformer: a configuration that can't be is refused in one line") {
  TransformerConfig config = kSmall;
  config.dim = 64;
  config.heads = 5;
  check_refused(config, "heads: 5 don't divide dim 64");
  config = kSmall;
  config.layers = 0;
  check_refused(config, "layers: expected a positive size below 2^31, got 0");
  config = kSmall;
  config.context = -3;
  check_refused(config, "context: expected a positive size below 2^31, got -3");
  config = kSmall;
  config.ffn = -1;
  check_refused(config, "ffn: expected a positive size below 2^31, or 0 for 4 dim, got -1");
  config = kSmall;
  config.eps = std::numeric_limits<double>::quiet_NaN();
  check_refused(config, "eps: expected a finite number that isn't negative, got nan");
  config = kSmall;
  config.dtype = DType::int32;
  check_refused(config, "dtype: expected float32 or float64, got int32");
}
