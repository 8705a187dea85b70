#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <jnorm/autograd/ops.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

Tensor targets_of(std::initializer_list<std::int32_t> values) {
  return indices({static_cast<Index>(values.size())}, std::vector<std::int32_t>(values));
}

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double loss_of(std::initializer_list<std::initializer_list<double>> logits, std::initializer_list<std::int32_t> targets,
               const CrossEntropyOptions& options = {}, DType dtype = DType::float64) {
  Tape tape;
  return cross_entropy(tape.variable(tensor(logits, dtype)), targets_of(targets), options).item();
}

doctest::Approx near(double value) { return doctest::Approx(value).epsilon(1e-6); }  // written with seven digits

// The same function from primitives, of the same recorded inputs.
Var composed(const Var& loss) {
  const Node& node = loss.tape().node(loss.index());
  std::vector<Var> inputs;
  for (std::size_t i = 0; i < node.input_count; ++i) inputs.push_back(loss.tape().var(node.inputs[i]));
  return node.operation->composed(inputs);
}

}  // namespace

TEST_CASE("cross_entropy: a target that is no class and not the ignored one is refused by value") {
  Tape tape;
  const Var logits = tape.variable(zeros({2, 5}));
  CHECK_THROWS_WITH_AS(cross_entropy(logits, targets_of({0, -4})),
                       doctest::Contains("target -4 at position 1 is outside [0, 5) and isn't -100 (ignored)"), Error);
  CHECK_THROWS_WITH_AS(cross_entropy(logits, targets_of({5, 0})), doctest::Contains("target 5 at position 0"), Error);
  CHECK_THROWS_WITH_AS(cross_entropy(logits, targets_of({-1, 0})), doctest::Contains("target -1 at position 0"), Error);
  CHECK_THROWS_WITH_AS(cross_entropy(logits, targets_of({-1, -4}), {.ignore_index = -1}),
                       doctest::Contains("target -4 at position 1 is outside [0, 5) and isn't -1 (ignored)"), Error);
  CHECK_THROWS_WITH_AS(cross_entropy(logits, targets_of({-100, 0}), {.ignore_index = -1}),
                       doctest::Contains("target -100 at position 0"), Error);
}

TEST_CASE("cross_entropy: label smoothing leaves ignored rows out") {
  const CrossEntropyOptions smooth{.label_smoothing = 0.2};
  CHECK(loss_of({{2, 0}}, {0}, smooth) == near(0.326928));
  CHECK(loss_of({{2, 0}, {0, 0}}, {0, -100}, smooth) == loss_of({{2, 0}}, {0}, smooth));
}

TEST_CASE("cross_entropy: weights, smoothing and an ignored target together") {
  const Tensor weights = tensor({0.2, 0.3}, DType::float64);
  const CrossEntropyOptions smooth{.label_smoothing = 0.1, .class_weights = weights};
  CHECK(loss_of({{1, 2}, {3, 0.4}}, {-100, 1}, smooth) == near(2.540451));
  CHECK(loss_of({{1, 2}, {3, 0.4}}, {-100, 1}, smooth) == loss_of({{3, 0.4}}, {1}, smooth));
  CHECK(loss_of({{1, 2}, {3, 0.4}}, {-100, 1}, {.class_weights = weights}) == near(2.671645));
}

TEST_CASE("cross_entropy: a weighted mean divides by the sum of the targets' weights") {
  const CrossEntropyOptions weighted{.class_weights = tensor({1, 3})};
  CHECK(loss_of({{2, 0}, {0, 0}}, {0, 1}, weighted) == near(0.551592));  // (1 * 0.126928 + 3 * 0.693147) / 4
}

TEST_CASE("cross_entropy: a mean over nothing is 0, and so is its gradient") {
  for (const CrossEntropyOptions& options :
       {CrossEntropyOptions{.ignore_index = 0}, CrossEntropyOptions{.class_weights = tensor({0, 1})},
        CrossEntropyOptions{.label_smoothing = 0.1, .class_weights = tensor({0, 1})}}) {
    Tape tape;
    const Var logits = tape.variable(tensor({{1, 2}}, DType::float64));
    const Var loss = cross_entropy(logits, targets_of({0}), options);
    for (const Var& result : {loss, composed(loss)}) {
      CHECK(result.item() == 0.0);
      CHECK(tape.gradients(result, {&logits, 1})[0] == close({0, 0}, 0.0));
    }
  }
}

TEST_CASE("cross_entropy: the ignored value may be any, a class as well") {
  CHECK(loss_of({{2, 0}, {5, 7}}, {0, 1}, {.ignore_index = 1}) == loss_of({{2, 0}}, {0}));
  CHECK(loss_of({{2, 0}, {5, 7}}, {0, 2147483647}, {.ignore_index = 2147483647}) == loss_of({{2, 0}}, {0}));
}

TEST_CASE("cross_entropy: sum, and a loss for each target with 0 where it is ignored") {
  Tape tape;
  const Var logits = tape.variable(tensor({2, 2, 2}, std::vector<double>{2, 0, 0, 0, kNaN, 1, 0, 1}, DType::float64));
  const std::vector<std::int32_t> values{0, 1, -100, 0};
  const Tensor targets = indices({2, 2}, values);
  const Var apart = cross_entropy(logits, targets, {.reduction = Reduction::none});
  CHECK(apart.shape() == Shape{2, 2});
  CHECK(apart.value() == close({0.126928, 0.693147, 0, 1.313262}));
  CHECK(composed(apart).value() == close({0.126928, 0.693147, 0, 1.313262}));
  CHECK(cross_entropy(logits, targets, {.reduction = Reduction::sum}).item() == near(2.133337));
}

TEST_CASE("cross_entropy: where exp underflows, the loss doesn't") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    CHECK(loss_of({{0, -200}}, {1}, {}, dtype) == 200.0);
    CHECK(loss_of({{-200, -200, -200, -200}}, {2}, {}, dtype) == near(1.386294));
  }
}

TEST_CASE("cross_entropy: sums of micro-batches over all their targets are the mean of the joint batch") {
  // log(1 + e^x) = 4 and 2: one target with loss 4, three with loss 2 each.
  const double four = std::log(std::exp(4.0) - 1), two = std::log(std::exp(2.0) - 1);
  const CrossEntropyOptions summed{.reduction = Reduction::sum};
  Tape tape;
  const Var a = tape.variable(tensor({{0, four}}, DType::float64));
  const Var b = tape.variable(tensor({{0, two}, {0, two}, {0, two}}, DType::float64));
  const Var both = tape.variable(tensor({{0, four}, {0, two}, {0, two}, {0, two}}, DType::float64));
  const Var loss = (cross_entropy(a, targets_of({0}), summed) + cross_entropy(b, targets_of({0, 0, 0}), summed)) * 0.25;
  const Var joint = cross_entropy(both, targets_of({0, 0, 0, 0}));
  CHECK(loss.item() == doctest::Approx(2.5).epsilon(1e-14));
  CHECK(joint.item() == doctest::Approx(2.5).epsilon(1e-14));
  tape.backward(loss);
  tape.backward(joint);
  std::vector<double> apart = a.gradient().values();
  for (const double value : b.gradient().values()) apart.push_back(value);
  const std::vector<double> together = both.gradient().values();
  for (std::size_t i = 0; i < apart.size(); ++i) CHECK(apart[i] == doctest::Approx(together[i]).epsilon(1e-14));
}

TEST_CASE("cross_entropy: a class at -inf costs nothing unless it is the target, by kernel and by composition") {
  Tape tape;
  const Var logits = tape.variable(tensor({{0, -kInfinity, 0}}, DType::float64));
  const Var loss = cross_entropy(logits, targets_of({0}));
  for (const Var& result : {loss, composed(loss)}) {
    CHECK(result.item() == near(0.693147));
    CHECK(tape.gradients(result, {&logits, 1})[0] == close({-0.5, 0, 0.5}, 1e-15));
  }
  CHECK(cross_entropy(logits, targets_of({1})).item() == kInfinity);
}

TEST_CASE("cross_entropy: a NaN in an ignored row reaches nothing, also in the second derivative") {
  Tape tape;
  const Var logits = tape.variable(tensor({{1, 2}, {kNaN, 0}}, DType::float64));
  const Var loss = cross_entropy(logits, targets_of({0, -100}), {.label_smoothing = 0.1});
  const Var first = tape.recorded_gradients(loss, {&logits, 1})[0];
  const std::vector<double> second = tape.gradients(sum(square(first)), {&logits, 1})[0].values();
  CHECK(std::isfinite(loss.item()));
  CHECK(first.value().at({1, 0}) == 0.0);
  CHECK(std::isfinite(second[0]));
  CHECK(second[2] == 0.0);
}

TEST_CASE("cross_entropy: options that mean nothing are refused by value") {
  Tape tape;
  const Var logits = tape.variable(zeros({1, 2}));
  const auto refused = [&](const CrossEntropyOptions& options, const char* message) {
    CHECK_THROWS_WITH_AS(cross_entropy(logits, targets_of({0}), options), doctest::Contains(message), Error);
  };
  refused({.label_smoothing = -0.1}, "label_smoothing must be in [0, 1), but is -0.1");
  refused({.label_smoothing = 1.0}, "label_smoothing must be in [0, 1), but is 1");
  refused({.label_smoothing = kNaN}, "label_smoothing must be in [0, 1), but is nan");
  refused({.class_weights = tensor({1, -2})}, "finite and not negative, but that of class 1 is -2");
  refused({.class_weights = tensor({kNaN, 1})}, "finite and not negative, but that of class 0 is nan");
  refused({.class_weights = tensor({1, kInfinity})}, "finite and not negative, but that of class 1 is inf");
  refused({.class_weights = ones({3})}, "class_weights must be [V] = [2], got [3]");
  refused({.class_weights = ones({2}, DType::int32)}, "class_weights must be floating-point, got int32");
}

TEST_CASE("cross_entropy: a batch with ignored rows has the loss and gradient of the others alone") {
  Tape tape;
  const Var alone = tape.variable(tensor({{3, 0.4}}, DType::float64));
  const Var both = tape.variable(tensor({{1, 2}, {3, 0.4}}, DType::float64));
  const Var loss_alone = cross_entropy(alone, targets_of({1}));
  const Var loss_both = cross_entropy(both, targets_of({kIgnoreIndex, 1}));
  tape.backward(loss_alone);
  tape.backward(loss_both);
  CHECK(loss_alone.item() == doctest::Approx(2.671645).epsilon(1e-6));
  CHECK(loss_both.item() == loss_alone.item());
  const std::vector<double> gradient = alone.gradient().values();
  CHECK(both.gradient() == close({0, 0, gradient[0], gradient[1]}, 0.0));
}

TEST_CASE("cross_entropy: without any target its derivatives of every order are 0") {
  Tape tape;
  const Var logits = tape.variable(tensor({{1, 2}}, DType::float64));
  const Var loss = cross_entropy(logits, targets_of({kIgnoreIndex}));
  const Var first = tape.recorded_gradients(loss, {&logits, 1})[0];
  CHECK(loss.item() == 0.0);
  CHECK(first.value() == close({0, 0}, 0.0));
  CHECK(tape.gradients(sum(square(first)), {&logits, 1})[0] == close({0, 0}, 0.0));
}

TEST_CASE("cross_entropy: logits and targets that don't belong together are refused with both shapes") {
  Tape tape;
  CHECK_THROWS_WITH_AS(cross_entropy(tape.variable(zeros({2, 5})), targets_of({0})),
                       doctest::Contains("logits [2, 5] need one target a row, got targets [1]"), Error);
  CHECK_THROWS_WITH_AS(cross_entropy(tape.variable(zeros({2, 5})), zeros({2})),
                       doctest::Contains("targets must be int32, got float32"), Error);
}
