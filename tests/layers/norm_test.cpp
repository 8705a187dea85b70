#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <jnorm/autograd/gradcheck.hpp>
#include <jnorm/autograd/linear_map.hpp>
#include <jnorm/autograd/recompute.hpp>
#include <jnorm/core/error.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/core/random.hpp>
#include <jnorm/layers/norm.hpp>
#include <jnorm/layers/transformer.hpp>

#include "support/close.hpp"

using namespace jnorm;
using doctest::Contains;

namespace {

Tensor apply(Layer& norm, const Tensor& x, const Pass& pass = {}) {
  Tape tape;
  return norm(tape.variable(x), pass).value();
}

Tensor normalized(NormKind kind) { return apply(*make_norm(kind, 4, 0.0), tensor({1, 2, 3, 4})); }

Tensor random_values(const Shape& shape, std::uint64_t seed = 1) {
  Rng rng(seed);
  return randn(shape, rng, DType::float64);
}

Tensor shaped(const Shape& shape, const std::vector<double>& values, DType dtype = DType::float32) {
  return tensor(shape, values, dtype);
}

const Tensor& buffer(const Layer& norm, const std::string& name) {
  for (const Buffer* each : norm.buffers()) {
    if (each->name == name) return each->value;
  }
  FAIL("no buffer " << name);
  return norm.buffers()[0]->value;
}

// [B, T] of one sequence: 1 for each of the first `counted` positions.
Tensor mask_of(Index counted, Index all) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(all));
  for (Index i = 0; i < counted; ++i) values[static_cast<std::size_t>(i)] = 1;
  return indices({1, all}, values);
}

// 1, ..., 5 in one feature of the first positions, and `padding` five times after them.
Tensor five_and(double padding) {
  std::vector<double> values{1, 2, 3, 4, 5};
  values.resize(10, padding);
  return tensor({1, 10, 1}, values);
}

// The norm in float64 with nothing of it 0 or 1.
std::unique_ptr<Layer> disturbed(const NormConfig& config) {
  auto norm = make_norm(config);
  norm->to(DType::float64);
  std::uint64_t seed = 5;
  for (Parameter* parameter : norm->parameters()) {
    parameter->set_value(add(parameter->value(), affine(random_values(parameter->shape(), seed++), 0.5, 0.0)));
  }
  return norm;
}

}  // namespace

TEST_CASE("norm: a new LayerNorm has mean 0 and variance 1") {
  CHECK(normalized(NormKind::layer) == close({-1.341641, -0.447214, 0.447214, 1.341641}));
}

TEST_CASE("norm: a new RMSNorm keeps the mean") {
  CHECK(normalized(NormKind::rms) == close({0.365148, 0.730297, 1.095445, 1.460593}));
}

TEST_CASE("norm: a new ScaleNorm is RMSNorm") {
  CHECK(normalized(NormKind::scale) == close({0.365148, 0.730297, 1.095445, 1.460593}));
}

TEST_CASE("norm: ScaleNorm's g starts at the root of the width and not at its inverse") {
  ScaleNorm norm(64, {.eps = 0.0});
  CHECK(norm.parameters()[0]->value() == close({8.0}, 0.0));
  CHECK(apply(norm, ones({64})).at({63}) == doctest::Approx(1.0));
}

TEST_CASE("norm: dynamic tanh is tanh(x / 2) at first") {
  CHECK(normalized(NormKind::dyt) == close({0.462117, 0.761594, 0.905148, 0.964028}));
}

TEST_CASE("norm: none leaves its input as it is and has no parameters") {
  CHECK(normalized(NormKind::none) == close({1, 2, 3, 4}, 0.0));
  CHECK(make_norm(NormKind::none, 4)->parameters().empty());
}

TEST_CASE("norm: every row of the last axis is normalized by itself") {
  LayerNorm norm(4, {.eps = 0.0});
  CHECK(apply(norm, tensor({{1, 2, 3, 4}, {100, 200, 300, 400}})) ==
        close({-1.341641, -0.447214, 0.447214, 1.341641, -1.341641, -0.447214, 0.447214, 1.341641}));
}

TEST_CASE("norm: LayerNorm over several trailing axes takes them together") {
  LayerNorm norm(Shape{2, 2}, {.eps = 0.0});
  norm.parameters()[0]->set_value(tensor({{1, 2}, {3, 4}}));
  norm.parameters()[1]->set_value(tensor({{0, 0}, {0, 1}}));
  const Tensor y = apply(norm, shaped({2, 2, 2}, {1, 2, 3, 4, 10, 20, 30, 40}));
  CHECK(y.shape() == Shape{2, 2, 2});
  CHECK(y == close({-1.341641, -0.894427, 1.341641, 6.366563, -1.341641, -0.894427, 1.341641, 6.366563}));
}

TEST_CASE("norm: LayerNorm over several axes refuses an input that doesn't end with them") {
  LayerNorm norm(Shape{2, 3});
  CHECK_THROWS_WITH_AS(apply(norm, zeros({4, 3, 2})),
                       Contains("layer_norm: expected x to end with the axes [2, 3] to normalize over, got [4, 3, 2]"),
                       Error);
  CHECK_THROWS_AS(apply(norm, zeros({3})), Error);
}

TEST_CASE("norm: without gamma and beta a norm only normalizes") {
  for (const NormKind kind : norm_kinds()) {
    CAPTURE(to_string(kind));
    const auto plain = make_norm(NormConfig{.kind = kind, .dim = 4, .affine = false});
    CHECK(plain->parameters().size() == (kind == NormKind::dyt ? 1 : 0));  // alpha
    CHECK(apply(*plain, tensor({{1, 2, 3, 4}, {3, 1, 4, 2}})).values() ==
          apply(*make_norm(kind, 4), tensor({{1, 2, 3, 4}, {3, 1, 4, 2}})).values());
  }
}

TEST_CASE("norm: partial RMSNorm divides all features by the root mean square of the first ones") {
  RmsNorm half(4, {.eps = 0.0}, 0.5);
  CHECK(apply(half, tensor({3, 4, 5, 10})) == close({0.848528, 1.131371, 1.414214, 2.828427}));  // r = sqrt(12.5)
  RmsNorm rounded_up(4, {.eps = 0.0}, 0.3);
  CHECK(rounded_up.measured_features() == 2);
  CHECK_THROWS_AS(RmsNorm(4, {}, 0.0), Error);
  CHECK_THROWS_WITH_AS(RmsNorm(4, {}, 1.5), "rms_norm: expected a fraction of the features in (0, 1], got 1.5", Error);
}

TEST_CASE("norm: GroupNorm normalizes neighbouring features together") {
  GroupNorm norm(4, 2, {.eps = 0.0});
  CHECK(apply(norm, tensor({{1, 3, 10, 20}})) == close({-1, 1, -1, 1}));
  CHECK_THROWS_WITH_AS(GroupNorm(6, 4), "group_norm: 4 groups don't divide the width 6", Error);
}

TEST_CASE("norm: all but BatchNorm in training see one position at a time") {
  for (const NormKind kind : norm_kinds()) {
    for (const bool training : {true, false}) {
      CAPTURE(to_string(kind));
      CAPTURE(training);
      const auto norm = disturbed({.kind = kind, .dim = 4, .groups = 2});
      norm->set_training(training);
      Tape tape;
      const Var x = tape.variable(random_values({2, 3, 4}));
      const Tensor J = jacobian((*norm)(x), x);
      double others = 0.0;
      for (Index i = 0; i < 24; ++i) {
        for (Index j = 0; j < 24; ++j) {
          if (i / 4 != j / 4) others = std::max(others, std::fabs(J.at({i, j})));
        }
      }
      CHECK((others > 0.0) == (kind == NormKind::batch && training));
    }
  }
}

TEST_CASE("norm: every norm as a module passes a gradient check, in evaluation too") {
  for (const NormKind kind : norm_kinds()) {
    for (const double fraction : {1.0, 0.5}) {
      for (const bool training : {true, false}) {
        if (fraction < 1.0 && kind != NormKind::rms) continue;
        CAPTURE(to_string(kind));
        CAPTURE(fraction);
        CAPTURE(training);
        const auto norm = disturbed({.kind = kind, .dim = 6, .groups = 2, .fraction = fraction});
        norm->set_training(training);
        const auto call = [&](std::span<const Var> xs) { return (*norm)(xs[0]); };
        const GradientReport report = check_gradients(DifferentiableFunction(call), {random_values({2, 3, 6})});
        CHECK_MESSAGE(report.passed(), to_string(report));
      }
    }
  }
}

TEST_CASE("batch norm: in training each feature is normalized over all positions") {
  BatchNorm norm(2, {.eps = 0.0});
  CHECK(apply(norm, tensor({{1, 10}, {3, 30}})) == close({-1, -1, 1, 1}));
}

// Mean 2, variance 4 / 2 = 2 without bias, 4 / 3 with: of 0, 2, 4.
TEST_CASE("batch norm: running statistics move by the momentum, and take the unbiased variance") {
  BatchNorm norm(1, {}, 0.25);
  apply(norm, shaped({3, 1}, {0, 2, 4}));
  CHECK(buffer(norm, "running_mean") == close({0.5}));
  CHECK(buffer(norm, "running_variance") == close({0.75 + 0.25 * 4.0}));
  apply(norm, shaped({3, 1}, {0, 2, 4}));
  CHECK(buffer(norm, "running_mean") == close({0.875}));
}

TEST_CASE("batch norm: evaluation takes the running statistics and changes none") {
  BatchNorm norm(1, {.eps = 0.0}, 1.0);
  apply(norm, shaped({3, 1}, {0, 2, 4}));
  norm.set_training(false);
  CHECK(apply(norm, shaped({1, 1}, {6})) == close({2.0}));  // (6 - 2) / sqrt(4)
  CHECK(buffer(norm, "running_mean") == close({2.0}));
}

TEST_CASE("batch norm: the gradient in evaluation is gamma / sqrt(running variance + eps), whenever it is asked for") {
  const auto gradient = [](double gamma, double variance) {
    BatchNorm norm(1);
    norm.parameters()[0]->set_value(tensor({gamma}));
    norm.load_state({{"gamma", tensor({gamma})},
                     {"beta", tensor({0})},
                     {"running_mean", tensor({0})},
                     {"running_variance", tensor({variance})}});
    norm.set_training(false);
    Tape tape;
    const Var x = tape.variable(shaped({3, 1}, {5, -1, 2}));
    const Var y = sum(norm(x));
    const std::vector<Var> xs{x};
    const Tensor first = tape.gradients(y, xs)[0], second = tape.gradients(y, xs)[0];
    CHECK(first.values() == second.values());
    return first;
  };
  CHECK(gradient(1.0, 1.0) == close({0.999995, 0.999995, 0.999995}));
  CHECK(gradient(2.0, 4.0) == close({0.99999875, 0.99999875, 0.99999875}));
}

TEST_CASE("batch norm: padded positions are no part of the statistics") {
  BatchNorm norm(1, {.eps = 0.0}, 1.0);
  const Tensor y = apply(norm, five_and(0.0), {.mask = mask_of(5, 10)});
  CHECK(buffer(norm, "running_mean") == close({3.0}));
  CHECK(buffer(norm, "running_variance") == close({2.5}));  // 2 with bias
  CHECK(y == close({-1.414214, -0.707107, 0, 0.707107, 1.414214, 0, 0, 0, 0, 0}));
}

TEST_CASE("batch norm: what stands in padded positions changes neither values nor gradients, NaN included") {
  const auto run = [](double padding) {
    BatchNorm norm(1);
    Tape tape;
    const Var x = tape.variable(five_and(padding));
    Rng rng(2);
    const Var y = norm(x, Pass{.mask = mask_of(5, 10)});
    tape.backward(sum(y * tape.constant(randn({1, 10, 1}, rng))));
    std::vector<double> all = y.value().values();
    for (const Tensor& each : {x.gradient(), norm.parameters()[0]->gradient(), norm.parameters()[1]->gradient(),
                               buffer(norm, "running_mean"), buffer(norm, "running_variance")}) {
      const std::vector<double> more = each.values();
      all.insert(all.end(), more.begin(), more.end());
    }
    for (std::size_t i = 15; i < 20; ++i) CHECK(all[i] == 0.0);  // the gradient of the padding
    return all;
  };
  CHECK(run(0.0) == run(1000.0));
  CHECK(run(0.0) == run(std::numeric_limits<double>::quiet_NaN()));
}

TEST_CASE("batch norm: one value a feature is refused in training and leaves the statistics alone") {
  BatchNorm norm(2);
  CHECK_THROWS_WITH_AS(apply(norm, zeros({1, 2})), Contains("batch_norm"), Error);
  CHECK_THROWS_AS(apply(norm, zeros({1, 3, 2}), {.mask = mask_of(1, 3)}), Error);
  CHECK(buffer(norm, "running_variance") == close({1, 1}, 0.0));
  norm.set_training(false);
  CHECK(apply(norm, ones({1, 2})) == close({0.999995, 0.999995}));
}

TEST_CASE("batch norm: a batch of one sequence has as many values as it has positions") {
  BatchNorm norm(1, {.eps = 0.0});
  CHECK(apply(norm, shaped({1, 2, 1}, {1, 3})) == close({-1, 1}));
}

TEST_CASE("batch norm: an empty batch gives an empty output and leaves the running statistics alone") {
  for (const bool training : {true, false}) {
    BatchNorm norm(4);
    norm.set_training(training);
    CHECK(apply(norm, zeros({0, 3, 4})).shape() == Shape{0, 3, 4});
    CHECK(buffer(norm, "running_mean") == close({0, 0, 0, 0}, 0.0));
    CHECK(buffer(norm, "running_variance") == close({1, 1, 1, 1}, 0.0));
  }
}

TEST_CASE("batch norm: a batch that is nothing but padding gives zeros and leaves the running statistics alone") {
  BatchNorm norm(1);
  CHECK(apply(norm, five_and(7.0), {.mask = mask_of(0, 10)}) == close({0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0.0));
  CHECK(buffer(norm, "running_mean") == close({0}, 0.0));
  CHECK(buffer(norm, "running_variance") == close({1}, 0.0));
}

TEST_CASE("batch norm: another number of features is refused, also if there are none") {
  BatchNorm norm(1);
  CHECK_THROWS_AS(apply(norm, zeros({0, 0})), Error);
  CHECK_THROWS_AS(apply(norm, zeros({4, 2})), Error);
  norm.set_training(false);
  CHECK_THROWS_AS(apply(norm, zeros({0, 0})), Error);
  CHECK_THROWS_AS(apply(norm, zeros({4, 2})), Error);
}

TEST_CASE("batch norm: a tape that measures leaves the running statistics alone") {
  BatchNorm norm(1);
  Tape tape;
  tape.set_measuring(true);
  norm(tape.variable(shaped({3, 1}, {0, 2, 4})));
  CHECK(buffer(norm, "running_mean") == close({0}, 0.0));
}

TEST_CASE("batch norm: a gradient check leaves the running statistics alone") {
  BatchNorm norm(2);
  norm.to(DType::float64);
  const auto call = [&](std::span<const Var> xs) { return norm(xs[0]); };
  check_gradients(DifferentiableFunction(call), {random_values({3, 2})});
  CHECK(buffer(norm, "running_mean") == close({0, 0}, 0.0));
}

TEST_CASE("batch norm: computing it again in backward counts a batch once") {
  BatchNorm norm(1, {}, 0.25);
  Tape tape;
  const std::vector<Var> xs{tape.variable(shaped({3, 1}, {0, 2, 4}))};
  const auto part = [&](std::span<const Var> inputs) { return square(norm(inputs[0])); };
  tape.backward(sum(recompute(part, xs)));
  CHECK(buffer(norm, "running_mean") == close({0.5}));
}

TEST_CASE("batch norm: its state has the running statistics, which loading brings back") {
  BatchNorm trained(1);
  apply(trained, shaped({3, 1}, {0, 2, 4}));
  std::vector<std::string> names;
  for (const auto& [name, value] : trained.state()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"gamma", "beta", "running_mean", "running_variance"});
  BatchNorm loaded(1);
  loaded.load_state(trained.state());
  CHECK(buffer(loaded, "running_mean").values() == buffer(trained, "running_mean").values());
}

TEST_CASE("batch norm: running statistics follow the parameters' dtype, but are never narrower than float32") {
  BatchNorm norm(1);
  norm.to(DType::float64);
  CHECK(buffer(norm, "running_mean").dtype() == DType::float64);
  CHECK(apply(norm, shaped({3, 1}, {0, 2, 4}, DType::float64)).dtype() == DType::float64);
  norm.to(DType::bfloat16);
  CHECK(buffer(norm, "running_variance").dtype() == DType::float32);
}

TEST_CASE("batch norm: a momentum outside [0, 1] is refused") {
  CHECK_THROWS_WITH_AS(BatchNorm(4, {}, 1.5), "batch_norm: the momentum must lie in [0, 1], but is 1.5", Error);
}

// They are parameters, which no later step of making a model starts anew.
TEST_CASE("norm: the starting values of norms survive the making, conversion and loading of a model") {
  const TransformerConfig config{
      .vocabulary = 5, .layers = 1, .dim = 4, .heads = 2, .context = 3, .norm = NormKind::scale};
  Transformer model(config, Rng(1));
  model.to(DType::float64);
  model.load_state(Transformer(config, Rng(2)).state());
  for (const auto& [name, value] : model.state()) {
    if (name.find("norm.g") != std::string::npos) CHECK(value == close({2.0}, 0.0));
  }
}

// 1 feature would repeat, 1536 would be normalized as if they were meant.
TEST_CASE("norm: an input of another width is refused with both sizes, with gamma or without") {
  for (const NormKind kind : norm_kinds()) {
    if (kind == NormKind::none) continue;
    for (const bool affine : {true, false}) {
      for (const double fraction : {1.0, 0.5}) {
        for (const bool training : {true, false}) {
          CAPTURE(to_string(kind));
          CAPTURE(affine);
          const auto norm = make_norm(NormConfig{.kind = kind, .dim = 768, .affine = affine, .fraction = fraction});
          norm->set_training(training);
          CHECK_THROWS_WITH_AS(apply(*norm, zeros({2, 1536})),
                               Contains("expected x to end with the axes [768] to normalize over, got [2, 1536] (at "),
                               Error);
          CHECK_THROWS_AS(apply(*norm, zeros({2, 1})), Error);
          CHECK_THROWS_AS(apply(*norm, zeros({})), Error);
        }
      }
    }
  }
}

TEST_CASE("norm: an eps that is negative or NaN is refused when the norm is made") {
  for (const NormKind kind : norm_kinds()) {
    if (kind == NormKind::none || kind == NormKind::dyt) continue;  // these have none
    CAPTURE(to_string(kind));
    CHECK_THROWS_WITH_AS(make_norm(kind, 4, -1.0), Contains("eps must be finite and not negative, but is -1"), Error);
    CHECK_THROWS_AS(make_norm(kind, 4, std::numeric_limits<double>::quiet_NaN()), Error);
  }
}

TEST_CASE("norm: a width that isn't positive is refused") {
  for (const NormKind kind : norm_kinds()) {
    if (kind == NormKind::none) continue;
    CAPTURE(to_string(kind));
    CHECK_THROWS_AS(make_norm(kind, 0), Error);
  }
}

TEST_CASE("norm: names go both ways, and an unknown one is told the nearest") {
  for (const NormKind kind : norm_kinds()) CHECK(norm_kind_from_string(to_string(kind)) == kind);
  CHECK_THROWS_WITH_AS(
      norm_kind_from_string("layr"),
      "norm: expected one of layer, rms, batch, group, scale, dyt, none, got \"layr\"; did you mean layer?", Error);
}
