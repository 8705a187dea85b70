// Programs as a user writes them, with the one header that includes all.

#include <doctest/doctest.h>

#include <iostream>
#include <sstream>

#include <jnorm/jnorm.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

// What is printed while this lives.
class Printed {
 public:
  Printed() : before_(std::cout.rdbuf(text_.rdbuf())) {}
  ~Printed() { std::cout.rdbuf(before_); }
  Printed(const Printed&) = delete;
  Printed& operator=(const Printed&) = delete;
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::streambuf* before_;
};

// Counting modulo 7: each target is the token after it.
Batch counting(Index batch, Index length) {
  std::vector<std::int32_t> tokens, targets;
  for (Index i = 0; i < batch * length; ++i) {
    tokens.push_back(static_cast<std::int32_t>(i % 7));
    targets.push_back(static_cast<std::int32_t>((i + 1) % 7));
  }
  return {{.tokens = indices({batch, length}, tokens)}, indices({batch, length}, targets)};
}

}  // namespace

TEST_CASE("program: a gradient through a norm, in six lines") {
  Rng rng(1);
  const Tensor target = randn({2, 8}, rng);
  const Printed printed;

  Tape tape;
  Var x = tape.variable(randn({2, 8}, rng), "x");
  Var y = layer_norm(x, tape.variable(ones({8}), "gamma"), tape.variable(zeros({8}), "beta"));
  tape.backward(mean(square(y - target)));
  print(x.gradient());

  CHECK(printed.text().starts_with("float32 [2, 8] {"));
  CHECK(sum(tape.constant(x.gradient()), {1}).value() == close({0, 0}));  // a row's shift changes nothing
}

TEST_CASE("program: a training loop") {
  Rng rng(1);
  Tape tape;
  const std::vector<Batch> batches(40, counting(4, 14));
  double last = 0.0;

  Transformer model({.layers = 2, .dim = 16, .heads = 4, .placement = Placement::pre}, rng);
  AdamW optimizer(model.parameters(), {.learning_rate = 1e-2});
  for (const auto& batch : batches) {
    tape.reset();
    Var loss = cross_entropy(model(tape, batch.tokens), batch.targets);
    tape.backward(loss);
    clip_gradient_norm(model.parameters(), 1.0);
    optimizer.step();
    last = loss.item();
  }

  CHECK(last < 0.5);  // from about ln 256 = 5.5
}

TEST_CASE("program: the Jacobian of a block from one recorded forward") {
  Rng rng(1);
  Tape tape;
  Transformer model({.layers = 6, .dim = 8, .heads = 2, .context = 4, .dtype = DType::float64}, rng);
  const Tensor tokens = counting(1, 4).tokens;
  const Tensor row = randn({8}, rng, DType::float64), gamma = ones({8}, DType::float64);
  const double eps = 1e-5;
  const Printed printed;

  model(tape, tokens);
  LinearMap J = linearize(tape.output("blocks.4"), tape.input("blocks.4"));
  print(J.distance_to_identity(), J.singular_values(8), layer_norm_jacobian(row, gamma, eps).singular_values());

  CHECK(J.rows() == 32);
  CHECK(J.distance_to_identity() < 1.0);
  CHECK(printed.text().find("float64 [8] {") != std::string::npos);
}

TEST_CASE("program: an operation of one's own, in xtensor expressions") {
  Rng rng(1);
  const Printed printed;

  auto swish = custom(
      "swish", [](auto& x, auto& y) { y = x / (1 + xt::exp(-x)); },
      [](auto& x, auto& y, auto& dy, auto& dx) { dx = dy * (y + (1 - y) / (1 + xt::exp(-x))); });
  print(check_gradients(swish, {randn({3, 4}, rng)}));

  CHECK(printed.text().find("central differences") != std::string::npos);
}
