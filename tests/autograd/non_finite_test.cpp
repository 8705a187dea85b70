#include <jnorm/autograd/non_finite.hpp>

#include <limits>

#include <doctest/doctest.h>

#include <jnorm/autograd/ops.hpp>

using namespace jnorm;

namespace {

const SourceLine kLine{"model.cpp", 88};

}  // namespace

TEST_CASE("non-finite: the first value names its operation, module path, source line and place") {
  Tape tape;
  const Var x = tape.variable(tensor({{1, 2}, {3, 1000}}), "x", kLine);
  {
    const ModuleScope outer(tape, "blocks"), inner(tape, "ffn");
    const Var y = exp(x, kLine);
    log(y, kLine);
  }
  CHECK(describe_non_finite_value(tape) ==
        "the first value that isn't finite is inf at [1, 1] of [2, 2] exp (blocks.ffn, at model.cpp:88)");
}

TEST_CASE("non-finite: a tape of finite values has nothing to tell") {
  Tape tape;
  const Var x = tape.variable(tensor({1, 2}));
  CHECK(describe_non_finite_value(tape).empty());
  CHECK(describe_non_finite_gradient(sum(x)).empty());
}

TEST_CASE("non-finite: a gradient names the operation whose derivative made it") {
  Tape tape;
  const Var x = tape.variable(tensor({4, 0}), "x", kLine);
  const Var shifted = affine(x, 2.0, 0.0, {"model.cpp", 3});
  const Var root = sqrt(shifted, {"model.cpp", 4});  // its derivative at 0 is infinite
  CHECK(describe_non_finite_gradient(sum(root)) ==
        "the first gradient that isn't finite is inf at [1] of [2] affine (at model.cpp:3), and comes out of the "
        "derivative of sqrt (at model.cpp:4)");
}

TEST_CASE("non-finite: a gradient that two operations add to names both") {
  Tape tape;
  const Var x = tape.variable(tensor({0, 0}), "x", kLine);
  const Var root = sqrt(x, {"model.cpp", 1});
  const Var y = add(root, square(x, {"model.cpp", 2}));
  const std::string message = describe_non_finite_gradient(sum(y));
  CHECK(message.ends_with("comes out of the derivative of square (at model.cpp:2) or sqrt (at model.cpp:1)"));
}

TEST_CASE("non-finite trace: the first operation that makes one stops there, and is named") {
  Tape tape;
  tape.trace_non_finite(true);
  const Var x = tape.variable(tensor({{1, 2}, {3, 1000}}), "x", kLine);
  const ModuleScope scope(tape, "ffn");
  CHECK_THROWS_WITH_AS(
      exp(x, kLine),
      "exp (ffn, at model.cpp:88) made inf at [1, 1] in its [2, 2] result, of finite inputs; it is the "
      "first on this tape",
      Error);
}

TEST_CASE("non-finite trace: a derivative that makes one is named in backward") {
  Tape tape;
  tape.trace_non_finite(true);
  const Var x = tape.variable(tensor({4, 0}), "x", kLine);
  const Var root = sqrt(affine(x, 2.0, 0.0, {"model.cpp", 3}), {"model.cpp", 4});
  const Var loss = sum(root);
  CHECK_THROWS_WITH_AS(
      tape.backward(loss),
      "backward: the derivative of sqrt (at model.cpp:4) made the first gradient that isn't finite, inf "
      "at [1] of [2] affine (at model.cpp:3)",
      Error);
}

TEST_CASE("non-finite trace: a variable and a cotangent that come with one are named") {
  Tape tape;
  tape.trace_non_finite(true);
  const double inf = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH_AS(tape.variable(tensor({1, inf}), "x", kLine), doctest::Contains("variable (x, at model.cpp:88)"),
                       Error);
  const Var y = tape.variable(tensor({1, 2}), "y", kLine) * 2.0;
  CHECK_THROWS_WITH_AS(tape.backward(y, {.cotangent = tensor({1, inf})}),
                       doctest::Contains("the cotangent that it was given for"), Error);
}

TEST_CASE("non-finite trace: an infinity in a constant is a mask, and only its NaN counts") {
  Tape tape;
  tape.trace_non_finite(true);
  const double inf = std::numeric_limits<double>::infinity();
  const Var mask = tape.constant(tensor({0, -inf}));
  const Var x = tape.variable(tensor({1, 2}));
  const Var probabilities = softmax(x + mask);
  tape.backward(sum(square(probabilities)));
  CHECK_THROWS_WITH_AS(mask * 0.0, doctest::Contains("made nan at [1]"), Error);
}

TEST_CASE("non-finite trace: a mask may be detached, and added in a NoRecord scope") {
  Tape tape;
  tape.trace_non_finite(true);
  const Var mask = tape.constant(tensor({0, -std::numeric_limits<double>::infinity()}));
  CHECK_NOTHROW(detach(mask));
  const NoRecord scope(tape);
  CHECK_NOTHROW(tape.variable(tensor({1, 2})) + mask);
}
