#include <doctest/doctest.h>

#include <cmath>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/pool.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

Tensor vector(std::initializer_list<double> values) { return tensor(values, DType::float64); }

}  // namespace

TEST_CASE("tape: the gradient of a product is the other factor") {
  Tape tape;
  const Var a = tape.variable(vector({2, 3}));
  const Var b = tape.variable(vector({5, 7}));
  tape.backward(sum(a * b));
  CHECK(a.gradient() == close({5, 7}));
  CHECK(b.gradient() == close({2, 3}));
}

TEST_CASE("tape: a hundred doublings give 2^100 at once") {
  Tape tape;
  const Var x = tape.variable(vector({1}));
  Var a = x;
  for (int i = 0; i < 100; ++i) a = a + a;
  tape.backward(a);
  CHECK(x.gradient().item() == std::ldexp(1.0, 100));
}

TEST_CASE("tape: expressions of one value alias nothing") {
  const auto derivative = [](auto expression) {
    Tape tape;
    const Var a = tape.variable(vector({1}));
    tape.backward(expression(a));
    return a.gradient().item();
  };
  CHECK(derivative([](const Var& a) { return a - 2.0 * a; }) == -1.0);
  CHECK(derivative([](const Var& a) { return a + 2.0 * a; }) == 3.0);
  CHECK(derivative([](const Var& a) { return a - a; }) == 0.0);
  CHECK(derivative([](const Var& a) { return 2.0 * a - a; }) == 1.0);
  CHECK(derivative([](const Var& a) { return 2.0 * a + a; }) == 3.0);
  CHECK(derivative([](const Var& a) { return a * a * 3.0; }) == 6.0);
  CHECK(derivative([](const Var& a) { return a / a; }) == 0.0);
}

TEST_CASE("tape: a broadcast operand's gradient has the operand's shape") {
  Tape tape;
  const Var a = tape.variable(vector({3}));
  const Var b = tape.variable(ones({5, 4}, DType::float64));
  tape.backward(sum(a * b));
  CHECK(a.gradient().shape() == Shape{1});
  CHECK(a.gradient().item() == 20.0);
}

TEST_CASE("tape: whatever broadcasts, gradients have their operands' shapes") {
  struct Pair {
    Shape a, b;
    double da, db;  // an element's gradient of sum(a + b): how often it is repeated
  };
  for (const Pair& pair : {Pair{{4, 1}, {1, 4}, 4, 4}, Pair{{3, 4}, {1, 4}, 1, 3}, Pair{{}, {2}, 2, 1},
                           Pair{{2, 1}, {1, 3}, 3, 2}, Pair{{3}, {2, 1, 3}, 2, 1}}) {
    Tape tape;
    const Var a = tape.variable(ones(pair.a, DType::float64));
    const Var b = tape.variable(ones(pair.b, DType::float64));
    tape.backward(sum(a + b));
    CHECK(a.gradient().shape() == pair.a);
    CHECK(b.gradient().shape() == pair.b);
    CHECK(a.gradient().values() == full(pair.a, pair.da).values());
    CHECK(b.gradient().values() == full(pair.b, pair.db).values());
  }
}

TEST_CASE("tape: backward adds to what is there") {
  Tape tape;
  const Var x = tape.variable(vector({3}));
  const Var y = square(x);
  tape.backward(y);
  tape.backward(y);
  CHECK(x.gradient().item() == 12.0);
}

TEST_CASE("tape: backward leaves the cotangent as it was") {
  Tape tape;
  const Var x = tape.variable(vector({1, 2, 3, 4}));
  const Var z = tape.variable(vector({4, 3, 2, 0}));
  const Tensor g = vector({1, -2, 3, -4});
  const Var y1 = rms_norm(x);
  const Var y2 = rms_norm(z);
  tape.backward(y1, {.cotangent = g});
  tape.backward(y2, {.cotangent = g});
  CHECK(g == close({1, -2, 3, -4}));
  CHECK_FALSE(x.gradient().shares_storage_with(z.gradient()));
  CHECK_FALSE(x.gradient().shares_storage_with(g));
}

TEST_CASE("tape: a parameter used twice is one leaf and collects both uses") {
  Parameter w("w", vector({2}));
  Tape tape;
  const Var a = tape.parameter(w);
  const Var b = tape.parameter(w);
  CHECK(a.index() == b.index());
  tape.backward(a * a + b);
  CHECK(w.gradient().item() == 5.0);
}

TEST_CASE("tape: a parameter's gradient stays over reset and adds up") {
  Parameter w("w", vector({2}));
  Tape tape;
  for (int i = 0; i < 3; ++i) {
    tape.reset();
    tape.backward(tape.parameter(w) * 4.0);
  }
  CHECK(w.gradient().item() == 12.0);
}

TEST_CASE("tape: a gradient that isn't computed is an error, not zero") {
  Tape tape;
  const Var x = tape.variable(vector({1}));
  CHECK_THROWS_WITH_AS(x.gradient(), doctest::Contains("no backward has reached it"), Error);
  const Var y = square(x);
  tape.backward(y);
  CHECK_THROWS_WITH_AS(y.gradient(), doctest::Contains("call retain_gradient() before backward"), Error);
  CHECK_THROWS_WITH_AS(tape.constant(vector({1})).gradient(), doctest::Contains("it is a constant"), Error);
}

TEST_CASE("tape: a retained inner gradient is kept") {
  Tape tape;
  const Var x = tape.variable(vector({3}));
  const Var y = square(x);
  y.retain_gradient();
  tape.backward(y * 5.0);
  CHECK(y.gradient().item() == 5.0);
  CHECK(x.gradient().item() == 30.0);
}

TEST_CASE("tape: a value from before reset says where the reset was") {
  Tape tape;
  const Var x = tape.variable(vector({1}));
  tape.reset();
  CHECK_THROWS_WITH_AS(x.value(), doctest::Contains("reset() at tape_test.cpp:"), Error);
}

TEST_CASE("tape: a saved value that was changed in place stops backward before it computes") {
  Tape tape;
  const Var a = tape.variable(vector({1, 2, 3}));
  const Var b = square(a);
  const Var c = square(b);
  b.value().write_in_place<double>()[1] = 3.3;
  CHECK_THROWS_WITH_AS(tape.backward(sum(c)),
                       doctest::Contains("square saved x at version 0, but x is now at version 1"), Error);
  CHECK_THROWS_AS(a.gradient(), Error);
}

TEST_CASE("tape: a change through another shape of a saved value is noticed") {
  Tape tape;
  const Var a = tape.variable(vector({1, 2, 3}));
  const Var c = square(a);
  reshape(a, {3, 1}).value().write_in_place<double>()[1] = 3.3;
  CHECK_THROWS_WITH_AS(tape.backward(sum(c)), doctest::Contains("square saved x at version 0, but x is now at version"),
                       Error);
}

TEST_CASE("tape: outside of modules an error about a saved value gives the line alone") {
  Tape tape;
  const Var a = tape.variable(vector({1}));
  const Var c = square(a);
  a.value().write_in_place<double>()[0] = 2.0;
  CHECK_THROWS_WITH_AS(tape.backward(c), doctest::Contains("or change it afterwards (at tape_test.cpp:"), Error);
}

TEST_CASE("tape: a parameter that changed after recording is an error, and recorded again it has the new gradient") {
  Parameter w("w", vector({1}));
  Tape tape;
  const auto cube = [&] {
    const Var x = tape.parameter(w);
    return x * x * x;
  };
  const Var stale = cube();
  w.value().write_in_place<double>()[0] = 2.0;  // as an optimizer does
  CHECK_THROWS_AS(tape.backward(stale), Error);
  tape.reset();
  tape.backward(cube());
  CHECK(w.gradient().item() == 12.0);
}

TEST_CASE("tape: another value of a parameter leaves what is recorded, and its gradient, as they were") {
  Parameter w("w", vector({1}));
  Tape tape;
  const Var x = tape.parameter(w);
  const Var y = x * x * x;
  w.set_value(vector({2}));
  tape.backward(y);
  CHECK(w.gradient().item() == 3.0);
}

TEST_CASE("tape: a changed value that no derivative reads does no harm") {
  Tape tape;
  const Var a = tape.variable(vector({1, 2}));
  const Var b = a + a;
  const Var c = b * 2.0;
  b.value().write_in_place<double>()[0] = 9.0;
  tape.backward(sum(c));
  CHECK(a.gradient() == close({4, 4}));
}

TEST_CASE("tape: writing to a copy leaves the recorded value alone") {
  Tape tape;
  const Var a = tape.variable(vector({3}));
  const Var b = square(a);
  Tensor copy = a.value();
  copy.mutable_data<double>()[0] = 100.0;
  tape.backward(b);
  CHECK(a.gradient().item() == 6.0);
}

TEST_CASE("tape: freed values say which backward freed them") {
  Tape tape;
  const Var x = tape.variable(vector({3}));
  const Var y = square(square(x));
  tape.backward(y, {.cotangent = {}, .free_values = true, .observe = {}});
  CHECK(x.gradient().item() == 108.0);
  CHECK(y.item() == 81.0);
  CHECK_THROWS_WITH_AS(tape.backward(y), doctest::Contains("were freed by backward at tape_test.cpp:"), Error);
}

TEST_CASE("tape: backward needs a cotangent unless y has one element") {
  Tape tape;
  const Var x = tape.variable(vector({1, 2}));
  CHECK_THROWS_WITH_AS(tape.backward(x * 2.0), doctest::Contains("y has shape [2]"), Error);
}

TEST_CASE("tape: backward from something that depends on no variable is an error") {
  Tape tape;
  CHECK_THROWS_WITH_AS(tape.backward(tape.constant(vector({1})) * 2.0), doctest::Contains("depends on no variable"),
                       Error);
}

TEST_CASE("tape: a hook may record gradients and differentiate them") {
  Tape tape;
  const Var x = tape.variable(vector({2}));
  const Var y = square(x) * x;
  std::vector<double> second;
  const auto differentiate_twice = [&](NodeIndex, const Tensor&) {
    const Var first = tape.recorded_gradients(y, {&x, 1})[0];
    second.push_back(tape.gradients(first, {&x, 1})[0].item());
  };
  tape.backward(y, {.cotangent = {}, .free_values = false, .observe = differentiate_twice});
  CHECK(second == std::vector<double>{12, 12, 12});  // 6 x, at y, at the square, and at x
  CHECK(x.gradient().item() == 12.0);                // 3 x^2
}

TEST_CASE("tape: a backward in a hook adds to parameters and variables what it would add alone") {
  Parameter w("w", vector({2}));
  Tape tape;
  const Var x = tape.variable(vector({5}));
  const Var p = tape.parameter(w);
  const Var y = square(p) * x + p;
  for (NodeIndex where = 0; where <= y.index(); ++where) {
    w.clear_gradient();
    const auto again = [&](NodeIndex node, const Tensor&) {
      if (node == where) tape.backward(y);
    };
    tape.backward(y, {.cotangent = {}, .free_values = false, .observe = again});
    CHECK(w.gradient().item() == 42.0);  // twice 2 p x + 1
    CHECK(x.gradient().item() == 8.0 * (where + 1.0));
  }
}

TEST_CASE("tape: a hook can neither reset the tape nor free its values") {
  Parameter w("w", vector({2}));
  Tape tape;
  const Var y = square(tape.parameter(w));
  const auto backward_with = [&](const std::function<void()>& call) {
    tape.backward(y, {.cotangent = {}, .free_values = false, .observe = [&](NodeIndex, const Tensor&) { call(); }});
  };
  CHECK_THROWS_WITH_AS(backward_with([&] { tape.reset(); }), doctest::Contains("while a sweep of this tape is under"),
                       Error);
  CHECK_THROWS_WITH_AS(backward_with([&] { tape.backward(y, {.cotangent = {}, .free_values = true, .observe = {}}); }),
                       doctest::Contains("backward: it can't free values while a sweep"), Error);
  tape.backward(y);
  CHECK(w.gradient().item() == 4.0);
  tape.reset();
}

TEST_CASE("tape: gradients of chosen nodes touch no variable and no parameter") {
  Parameter w("w", vector({2}));
  Tape tape;
  const Var x = tape.variable(vector({3}));
  const Var inner = x * tape.parameter(w);
  const Var y = square(inner);
  const std::array<Var, 2> xs{inner, x};
  const std::vector<Tensor> gradients = tape.gradients(y, xs);
  CHECK(gradients[0].item() == 12.0);
  CHECK(gradients[1].item() == 24.0);
  CHECK_FALSE(w.has_gradient());
  CHECK_THROWS_AS(x.gradient(), Error);
}

TEST_CASE("tape: several cotangents at once give the rows of the Jacobian") {
  Tape tape;
  const Var x = tape.variable(vector({1, 2, 3}));
  const Var y = square(x) * x;
  const std::vector<Tensor> rows = tape.gradients(y, {&x, 1}, identity(3, DType::float64));
  CHECK(rows[0] == close({3, 0, 0, 0, 12, 0, 0, 0, 27}));
}

TEST_CASE("tape: a forward sweep pushes a tangent between two nodes") {
  Tape tape;
  const Var x = tape.variable(vector({1, 2}));
  const Var y = exp(square(x));
  CHECK(tape.push_forward(y, x, vector({1, 0})) == close({2 * std::exp(1.0), 0}));
}

TEST_CASE("tape: a tangent of something that y doesn't depend on gives zero") {
  Tape tape;
  const Var x = tape.variable(vector({1, 2}));
  const Var y = tape.variable(vector({3, 4})) * 2.0;
  CHECK(tape.push_forward(y, x, vector({1, 1})) == close({0, 0}));
}

TEST_CASE("tape: no cotangents at all, or no tangents, are refused") {
  Tape tape;
  const Var x = tape.variable(zeros({2, 3}, DType::float64));
  const Var y = layer_norm(x);
  const Tensor none = zeros({0, 2, 3}, DType::float64);
  CHECK_THROWS_WITH_AS(tape.gradients(y, {&x, 1}, none), doctest::Contains("there must be at least one cotangent"),
                       Error);
  CHECK_THROWS_WITH_AS(tape.push_forward(y, x, none), doctest::Contains("there must be at least one tangent"), Error);
}

TEST_CASE("tape: recorded gradients can be differentiated again") {
  Tape tape;
  const Var x = tape.variable(vector({2}));
  const Var y = square(x) * x;                                    // x^3
  const Var first = tape.recorded_gradients(y, {&x, 1})[0];       // 3 x^2
  const Var second = tape.recorded_gradients(first, {&x, 1})[0];  // 6 x
  const Var third = tape.recorded_gradients(second, {&x, 1})[0];  // 6
  CHECK(first.item() == 12.0);
  CHECK(second.item() == 12.0);
  CHECK(third.item() == 6.0);
}

TEST_CASE("tape: recorded gradients refuse a cotangent of another shape, dtype or tape") {
  Tape tape;
  Tape other;
  const Var x = tape.variable(vector({1, 2}));
  const Var y = square(x);
  const auto refused = [&](const Var& cotangent, const char* message) {
    CHECK_THROWS_WITH_AS(tape.recorded_gradients(y, {&x, 1}, cotangent), doctest::Contains(message), Error);
  };
  refused(tape.constant(vector({1, 2, 3})), "recorded_gradients: the cotangent's shape must be [2]");
  refused(tape.constant(ones({3, 2}, DType::float64)), "recorded_gradients: one cotangent of shape [2] is expected");
  refused(tape.constant(tensor({1, 2})), "recorded_gradients: y is float64, but its cotangent is float32");
  refused(other.constant(vector({1, 2})), "recorded_gradients: got a value that another tape recorded");
}

TEST_CASE("tape: second and third derivatives through a fused LayerNorm are right") {
  // f(t) = sum of LN([t, 0]) with gamma = [1, 2] and eps = 0.25 is -t / sqrt(1 + t^2).
  Tape tape;
  const Var t = tape.variable(vector({0.7}));
  const Var x = t * tape.constant(vector({1, 0}));
  const Var f = sum(layer_norm(x, tape.constant(vector({1, 2})), {}, 0.25));
  const Var first = tape.recorded_gradients(f, {&t, 1})[0];
  const Var second = tape.recorded_gradients(first, {&t, 1})[0];
  const Var third = tape.recorded_gradients(second, {&t, 1})[0];
  CHECK(f.item() == doctest::Approx(-0.57346234).epsilon(1e-8));
  CHECK(first.item() == doctest::Approx(-0.54982008).epsilon(1e-8));
  CHECK(second.item() == doctest::Approx(0.7749142079590942).epsilon(1e-12));
  CHECK(third.item() == doctest::Approx(-0.7132479766449956).epsilon(1e-12));
}

TEST_CASE("tape: the module path and line of a call stand in its errors") {
  Tape tape;
  const ModuleScope block(tape, "blocks.3");
  const ModuleScope norm(tape, "norm");
  const Var x = tape.variable(zeros({2, 1024}));
  const Var gamma = tape.variable(zeros({768}));
  CHECK_THROWS_WITH_AS(layer_norm(x, gamma),
                       doctest::Contains("layer_norm: the last axis of x is 1024, but gamma has 768 (blocks.3.norm, at "
                                         "tape_test.cpp:"),
                       Error);
}

TEST_CASE("tape: a module's input and output are found by its path") {
  Tape tape;
  const Var x = tape.variable(vector({1}));
  Var y;
  {
    ModuleScope scope(tape, "blocks.0");
    y = scope.report(x, x * 2.0);
  }
  CHECK(tape.input("blocks.0").index() == x.index());
  CHECK(tape.output("blocks.0").index() == y.index());
  CHECK_THROWS_WITH_AS(tape.output("blocks.1"), doctest::Contains("no module 'blocks.1'"), Error);
}

TEST_CASE("tape: a module that was called twice needs the call's number") {
  Tape tape;
  const Var x = tape.variable(vector({1}));
  for (const double scale : {2.0, 3.0}) {
    ModuleScope scope(tape, "head");
    scope.report(x, x * scale);
  }
  CHECK_THROWS_WITH_AS(tape.output("head"), doctest::Contains("was called 2 times"), Error);
  CHECK(tape.output("head", 1).item() == 3.0);
}

TEST_CASE("tape: the first non-finite value is found in the order of recording") {
  Tape tape;
  const Var x = tape.variable(vector({-1}));
  const Var bad = log(x);
  const Var worse = bad * 2.0;
  CHECK(worse.tape().first_non_finite() == bad.index());
}

TEST_CASE("tape: a running loss keeps no graph alive") {
  Tape tape;
  Parameter w("w", ones({4}, DType::float64));
  double running_loss = 0.0;
  const auto step = [&] {
    tape.reset();
    const Var loss = sum(square(tape.parameter(w)));
    tape.backward(loss);
    w.clear_gradient();
    running_loss += loss.item();
  };
  step();
  const NodeIndex nodes = tape.size();
  const std::int64_t bytes = pool::statistics().bytes_in_use;
  for (int i = 1; i < 1000; ++i) step();
  CHECK(tape.size() == nodes);
  CHECK(pool::statistics().bytes_in_use == bytes);
  CHECK(running_loss == 4000.0);
}

TEST_CASE("tape: in the steady state nothing is asked of the system") {
  Tape tape;
  Parameter w("w", ones({8, 8}));
  const Tensor x = ones({4, 8});
  const auto step = [&] {
    tape.reset();
    tape.backward(mean(square(linear(tape.constant(x), tape.parameter(w)))));
    w.clear_gradient();
  };
  step();
  step();
  const std::int64_t before = pool::statistics().system_allocations;
  for (int i = 0; i < 10; ++i) step();
  CHECK(pool::statistics().system_allocations == before);
}

TEST_CASE("tape: a value of another tape is refused") {
  Tape one;
  Tape two;
  const Var a = one.variable(vector({1}));
  const Var b = two.variable(vector({1}));
  CHECK_THROWS_WITH_AS(a + b, doctest::Contains("two tapes"), Error);
}

TEST_CASE("tape: a million nodes are swept without recursion, in less than 1 GB") {
  Tape tape;
  const Var x = tape.variable(vector({1}));
  Var y = x;
  for (int i = 0; i < 1000000; ++i) y = y + 1.0;
  pool::reset_peak();
  tape.backward(y);
  CHECK(x.gradient().item() == 1.0);
  CHECK(tape.memory().node_bytes + pool::statistics().peak_bytes < 1'000'000'000);
}

TEST_CASE("tape: backward refuses an embedding whose tokens were changed in place") {
  Tape tape;
  const Var table = tape.variable(ones({3, 2}, DType::float64), "table");
  const std::int32_t tokens[] = {0, 2};
  const Tensor changed = indices({2}, tokens);
  const Var y = sum(embedding(table, changed));
  changed.write_in_place<std::int32_t>()[0] = 1;
  CHECK_THROWS_WITH_AS(tape.backward(y), doctest::Contains("embedding saved tokens at version"), Error);
}

TEST_CASE("tape: an int32 variable is refused, since it has no gradient") {
  Tape tape;
  CHECK_THROWS_WITH_AS(tape.variable(zeros({2}, DType::int32)), doctest::Contains("got int32; use constant()"), Error);
}
