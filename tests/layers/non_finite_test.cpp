#include <jnorm/layers/non_finite.hpp>

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
