#include <doctest/doctest.h>

#include <jnorm/autograd/ops.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

Tensor targets_of(std::initializer_list<std::int32_t> values) {
  return indices({static_cast<Index>(values.size())}, std::vector<std::int32_t>(values));
}

}  // namespace

TEST_CASE("cross_entropy: a target that is no class and not the ignored one is refused by value") {
  Tape tape;
  const Var logits = tape.variable(zeros({2, 5}));
  CHECK_THROWS_WITH_AS(cross_entropy(logits, targets_of({0, -4})),
                       doctest::Contains("target -4 at position 1 is outside [0, 5) and isn't -100 (ignored)"), Error);
  CHECK_THROWS_WITH_AS(cross_entropy(logits, targets_of({5, 0})), doctest::Contains("target 5 at position 0"), Error);
  CHECK_THROWS_WITH_AS(cross_entropy(logits, targets_of({-1, 0})), doctest::Contains("target -1 at position 0"), Error);
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
