// Parts of a model whose inner values are dropped and computed again.

#include <atomic>
#include <thread>

#include <doctest/doctest.h>

#include <jnorm/autograd/linear_map.hpp>
#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/recompute.hpp>
#include <jnorm/core/random.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

constexpr Index kWidth = 16;

// A few blocks x + w2 gelu(w1 norm(x)), each of them recomputed or not.
class SmallModel {
 public:
  explicit SmallModel(int blocks) {
    Rng rng(1);
    for (int i = 0; i < 2 * blocks; ++i) {
      weights_.push_back(
          std::make_unique<Parameter>("weight", affine(randn({kWidth, kWidth}, rng, DType::float64), 0.2, 0.0)));
    }
  }

  Var operator()(Var x, bool recomputed) {
    for (std::size_t i = 0; i < weights_.size(); i += 2) {
      const auto block = [this, i](const Var& input) {
        const ModuleScope scope(input.tape(), "block");
        Tape& tape = input.tape();
        const Var hidden = gelu(linear(layer_norm(input), tape.parameter(*weights_[i])));
        return input + linear(hidden, tape.parameter(*weights_[i + 1]));
      };
      x = recomputed ? recompute(block, x) : block(x);
    }
    return x;
  }

  Parameter& weight(std::size_t i) { return *weights_[i]; }
  void clear_gradients() {
    for (const auto& weight : weights_) weight->clear_gradient();
  }

 private:
  std::vector<std::unique_ptr<Parameter>> weights_;
};

Tensor input() {
  Rng rng(2);
  return randn({8, kWidth}, rng, DType::float64);
}

Var bump(const Var& x) { return exp(square(tanh(x))); }

// The gradient of bump(x) w with respect to x, recorded behind bump, of which it reads inner values, and behind w.
struct Slope {
  explicit Slope(bool recomputed) {
    x = tape.variable(tensor({0.5, 0.7}, DType::float64));
    const Var y = recomputed ? recompute(bump, x) : bump(x);
    w = tape.variable(tensor({2.0, 3.0}, DType::float64));
    slope = tape.recorded_gradients(sum(y * w), {&x, 1})[0];
  }

  Tape tape;
  Var x, w, slope;
};

}  // namespace

TEST_CASE("recompute: the gradients are the same to the last bit") {
  SmallModel model(3);
  Tensor expected_x, expected_weight;
  for (const bool recomputed : {false, true}) {
    Tape tape;
    const Var x = tape.variable(input());
    model.clear_gradients();
    tape.backward(sum(square(model(x, recomputed))));
    if (!recomputed) {
      expected_x = x.gradient();
      expected_weight = model.weight(2).gradient();
    } else {
      CHECK(x.gradient().values() == expected_x.values());
      CHECK(model.weight(2).gradient().values() == expected_weight.values());
    }
  }
}

TEST_CASE("recompute: inner values are gone after the forward, and after backward") {
  SmallModel model(4);
  Tape whole, parts;
  whole.backward(sum(model(whole.variable(input()), false)));
  const Var y = sum(model(parts.variable(input()), true));
  const Index after_forward = parts.memory().value_bytes;
  CHECK(after_forward < whole.memory().value_bytes / 3);
  parts.backward(y);
  CHECK(parts.memory().value_bytes == after_forward);
  CHECK(parts.memory().peak_bytes < whole.memory().peak_bytes);
}

TEST_CASE("recompute: every sweep crosses it") {
  SmallModel model(2);
  Tape whole, parts;
  const Var x = whole.variable(input()), x_again = parts.variable(input());
  const Var y = model(x, false), y_again = model(x_again, true);
  CHECK(jacobian(y_again, x_again).values() == jacobian(y, x).values());
  Rng rng(3);
  const Tensor v = randn(x.shape(), rng, DType::float64);
  CHECK(parts.push_forward(y_again, x_again, v).values() == whole.push_forward(y, x, v).values());
  const auto second = [&](Tape& tape, const Var& from, const Var& to) {
    const Var slope = tape.recorded_gradients(sum(square(to)), {&from, 1})[0];
    return tape.gradients(sum(square(slope)), {&from, 1})[0].values();
  };
  CHECK(second(parts, x_again, y_again) == second(whole, x, y));
}

TEST_CASE("recompute: a Jacobian of an inner part alone") {
  SmallModel model(3);
  Tape whole, parts;
  const Var x = whole.variable(input()), x_again = parts.variable(input());
  const Var middle = model(x, false), middle_again = model(x_again, true);
  const Var y = model(middle, false), y_again = model(middle_again, true);
  CHECK(jacobian(y_again, middle_again).values() == jacobian(y, middle).values());
}

TEST_CASE("recompute: backward twice adds twice") {
  SmallModel model(2);
  Tape tape;
  const Var x = tape.variable(input());
  const Var y = sum(square(model(x, true)));
  tape.backward(y);
  const std::vector<double> once = x.gradient().values();
  tape.backward(y);
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(x.gradient().values()[i] == 2.0 * once[i]);
}

TEST_CASE("recompute: a part inside of a part belongs to the outer one") {
  Tape tape, plain;
  const auto part = [](const Var& x) {
    return recompute([](const Var& inner) { return tanh(exp(inner)); }, square(x)) * 2.0;
  };
  const Var x = tape.variable(tensor({0.5}, DType::float64)), x_plain = plain.variable(tensor({0.5}, DType::float64));
  tape.backward(recompute(part, x));
  plain.backward(tanh(exp(square(x_plain))) * 2.0);
  CHECK(x.gradient().item() == x_plain.gradient().item());
}

TEST_CASE("recompute: several inputs, and a part that hands one on") {
  Tape tape;
  const std::vector<Var> inputs{tape.variable(tensor({2.0}, DType::float64)),
                                tape.variable(tensor({3.0}, DType::float64))};
  const auto product = [](std::span<const Var> xs) { return exp(log(xs[0]) + log(xs[1])); };
  tape.backward(recompute(product, inputs));
  CHECK(inputs[0].gradient() == close({3}));
  CHECK(inputs[1].gradient() == close({2}));
  const Var same = recompute([](std::span<const Var> xs) { return xs[1]; }, inputs);
  CHECK(same.index() == inputs[1].index());
}

TEST_CASE("recompute: free_values frees what was brought back too") {
  SmallModel model(2);
  Tape tape;
  const Var x = tape.variable(input());
  const Var y = sum(model(x, true));
  tape.backward(y, {.free_values = true});
  CHECK(tape.memory().saved_bytes == 0);
  CHECK_THROWS_WITH_AS(tape.backward(y), doctest::Contains("were freed by backward"), Error);
}

TEST_CASE("recompute: a parameter that changed meanwhile is an error") {
  SmallModel model(1);
  Tape tape;
  const Var y = sum(model(tape.variable(input()), true));
  model.weight(0).set_value(zeros({kWidth, kWidth}, DType::float64));
  CHECK_THROWS_WITH_AS(tape.backward(y), doctest::Contains("the part gave another value than before"), Error);
}

TEST_CASE("recompute: a part that does something else the second time is an error") {
  Tape tape;
  const Var x = tape.variable(tensor({0.5}, DType::float64));
  int calls = 0;
  const Var y = recompute([&](const Var& input) { return calls++ == 0 ? exp(square(input)) : exp(tanh(input)); }, x);
  CHECK_THROWS_WITH_AS(tape.backward(y), doctest::Contains("recorded tanh instead of square"), Error);
}

TEST_CASE("recompute: an inner value read outside says that it was dropped") {
  Tape tape;
  const Var x = tape.variable(tensor({0.5}, DType::float64));
  Var inner;
  recompute(
      [&](const Var& input) {
        inner = square(input);
        return exp(inner);
      },
      x);
  CHECK_THROWS_WITH_AS(inner.value(), doctest::Contains("its value was dropped by recompute()"), Error);
}

TEST_CASE("recompute: backward through a recorded gradient of a part") {
  Slope whole(false), parts(true);
  whole.tape.backward(sum(square(whole.slope)));
  parts.tape.backward(sum(square(parts.slope)));
  CHECK(parts.x.gradient().values() == whole.x.gradient().values());
}

TEST_CASE("recompute: sweeps from behind a part through its recorded gradient") {
  Slope whole(false), parts(true);
  const auto gradient = [](Slope& s) { return s.tape.gradients(sum(s.slope), {&s.w, 1})[0].values(); };
  const auto tangent = [](Slope& s) { return s.tape.push_forward(s.slope, s.w, ones({2}, DType::float64)).values(); };
  CHECK(gradient(parts) == gradient(whole));
  CHECK(tangent(parts) == tangent(whole));
  CHECK(jacobian(parts.slope, parts.w).values() == jacobian(whole.slope, whole.w).values());
}

TEST_CASE("recompute: several threads sweep one tape") {
  SmallModel model(3);
  Tape tape;
  const Var x = tape.variable(input());
  const Var y = sum(model(x, true));
  const std::vector<double> expected = tape.gradients(y, {&x, 1})[0].values();
  std::atomic<int> equal = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int repeat = 0; repeat < 300; ++repeat) {
        const Tensor gradient = i % 2 == 0 ? tape.gradients(y, {&x, 1})[0] : jacobian(y, x);
        equal += gradient.values() == expected ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(equal == 4 * 300);
}

TEST_CASE("recompute: a part that reads a value that isn't handed in is an error at once") {
  Tape tape;
  const Var x = tape.variable(tensor({0.5}, DType::float64)), other = tape.constant(tensor({2.0}, DType::float64));
  CHECK_THROWS_WITH_AS(recompute([&](const Var& input) { return exp(input * other); }, x),
                       doctest::Contains("the part reads constant"), Error);
}

TEST_CASE("recompute: a part that fails when it runs again leaves nothing behind") {
  Tape tape;
  const Var x = tape.variable(tensor({0.5}, DType::float64));
  int calls = 0;
  const Var y = recompute([&](const Var& a) { return calls++ == 1 ? exp(exp(tanh(a))) : exp(square(tanh(a))); }, x);
  const Index bytes = tape.memory().value_bytes;
  CHECK_THROWS_AS(tape.backward(y), Error);
  CHECK(tape.memory().value_bytes == bytes);
}

TEST_CASE("recompute: a sweep into a part whose input was freed says so") {
  Tape tape;
  const Var x = tape.variable(tensor({0.5}, DType::float64));
  const Var y = recompute(bump, exp(x));
  tape.backward(y, {.free_values = true});
  CHECK_THROWS_WITH_AS(tape.gradients(y, {&x, 1}), doctest::Contains("were freed by backward"), Error);
}
