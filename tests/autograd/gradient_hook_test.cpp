// Hooks that read or replace a gradient during backward.

#include <doctest/doctest.h>

#include <jnorm/autograd/linear_map.hpp>
#include <jnorm/autograd/ops.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

Tensor vector(std::initializer_list<double> values) { return tensor(values, DType::float64); }

}  // namespace

TEST_CASE("on_gradient: an inner node's complete gradient is read once") {
  Tape tape;
  const Var x = tape.variable(vector({1, 2}));
  const Var y = square(x);
  std::vector<Tensor> seen;
  y.on_gradient([&](const Tensor& gradient) {
    seen.push_back(gradient.clone());
    return Tensor();
  });
  tape.backward(sum(y * 3.0 + y));  // two contributions, 3 and 1
  REQUIRE(seen.size() == 1);
  CHECK(seen[0] == close({4, 4}));
  CHECK(x.gradient() == close({8, 16}));
}

TEST_CASE("on_gradient: a replacement goes on to everything before it") {
  Tape tape;
  const Var x = tape.variable(vector({1, 2}));
  const Var y = square(x);
  y.on_gradient([](const Tensor& gradient) { return affine(gradient, -1.0, 0.0); });
  y.retain_gradient();
  tape.backward(sum(y));
  CHECK(y.gradient() == close({-1, -1}));
  CHECK(x.gradient() == close({-2, -4}));
}

TEST_CASE("on_gradient: a leaf's hook sees this sweep's gradient, not what was there") {
  Tape tape;
  Parameter weight("weight", vector({1}));
  weight.add_gradient(vector({100}));
  const Var leaf = tape.parameter(weight);
  double seen = 0.0;
  leaf.on_gradient([&](const Tensor& gradient) {
    seen = gradient.item();
    return affine(gradient, 0.5, 0.0);
  });
  tape.backward(leaf * 6.0);
  CHECK(seen == 6.0);
  CHECK(weight.gradient().item() == 103.0);
}

TEST_CASE("on_gradient: several hooks run in the order in which they were added") {
  Tape tape;
  const Var x = tape.variable(vector({1}));
  x.on_gradient([](const Tensor& gradient) { return affine(gradient, 1.0, 1.0); });
  x.on_gradient([](const Tensor& gradient) { return affine(gradient, 10.0, 0.0); });
  tape.backward(x * 2.0);
  CHECK(x.gradient().item() == 30.0);
}

TEST_CASE("on_gradient: hooks last until reset") {
  Tape tape;
  int calls = 0;
  for (int step = 0; step < 2; ++step) {
    const Var x = tape.variable(vector({1}));
    if (step == 0) {
      x.on_gradient([&](const Tensor&) {
        ++calls;
        return Tensor();
      });
    }
    tape.backward(x * 2.0);
    tape.reset();
  }
  CHECK(calls == 1);
}

TEST_CASE("on_gradient: measurements don't call hooks") {
  Tape tape;
  const Var x = tape.variable(vector({1, 2}));
  const Var y = square(x);
  y.on_gradient([](const Tensor& gradient) { return affine(gradient, 0.0, 0.0); });
  CHECK(jacobian(y * 1.0, x) == close({2, 0, 0, 4}));
}

TEST_CASE("on_gradient: a hook may record on the tape and sweep it") {
  Tape tape;
  const Var x = tape.variable(vector({3}));
  const Var y = square(x);
  double second = 0.0;
  y.on_gradient([&](const Tensor&) {
    const Var slope = tape.recorded_gradients(y, {&x, 1})[0];
    second = tape.gradients(slope, {&x, 1})[0].item();
    return Tensor();
  });
  tape.backward(y * 1.0);
  CHECK(second == 2.0);
  CHECK(x.gradient().item() == 6.0);
}

TEST_CASE("on_gradient: a result of another shape or dtype is refused, and gradients stay as they were") {
  Tape tape;
  Parameter weight("weight", vector({1}));
  weight.add_gradient(vector({100}));
  const Var y = tape.parameter(weight) * 2.0;
  y.on_gradient([](const Tensor&) { return zeros({2}, DType::float64); });
  CHECK_THROWS_WITH_AS(tape.backward(y), doctest::Contains("a hook must give back a gradient of float64 [1]"), Error);
  CHECK(weight.gradient().item() == 100.0);
}

TEST_CASE("on_gradient: a constant gets no gradient to hook") {
  Tape tape;
  const Var x = tape.constant(vector({1}));
  CHECK_THROWS_WITH_AS(x.on_gradient([](const Tensor&) { return Tensor(); }),
                       doctest::Contains("so it gets no gradient"), Error);
}
