#include <cmath>

#include "autograd/norm_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

TEST_CASE("rms_norm: the mean stays") {
  Tape tape;
  CHECK(rms_norm(tape.variable(tensor({{1, 2, 3, 4}})), {}, 0.0).value() ==
        close({0.365148, 0.730297, 1.095445, 1.460593}));
}

TEST_CASE("rms_norm: another number of features than gamma's is refused with both sizes") {
  Tape tape;
  CHECK_THROWS_WITH_AS(rms_norm(tape.variable(ones({2, 1024})), tape.variable(ones({768}))),
                       doctest::Contains("rms_norm: the last axis of x is 1024, but gamma has 768"), Error);
}

TEST_CASE("rms_norm: its recorded gradient is differentiated by inputs and cotangent") {
  for (const bool has_gamma : {false, true}) {
    const auto gradients = [&](std::span<const Var> inputs) {
      const Var y = rms_norm(inputs[1], has_gamma ? inputs[2] : Var());
      return sum(square(y.tape().recorded_gradients(y, {&inputs[1], 1}, inputs[0])[0]));
    };
    std::vector<Tensor> inputs{random({2, 4}, 1), random({2, 4}, 2)};
    if (has_gamma) inputs.push_back(random({4}, 3));
    const GradientReport report = check_gradients(gradients, inputs);
    CHECK_MESSAGE(report.passed(), to_string(report));
  }
}

TEST_CASE("rms_norm: a tensor of rank 3 is its rows, backwards too") {
  Tape tape;
  const Tensor value = random({2, 3, 4}, 1), dy = random({2, 3, 4}, 2);
  const Var x = tape.variable(value), flat = tape.variable(value.reshape({6, 4}));
  CHECK(tape.gradients(rms_norm(x), {&x, 1}, dy)[0].values() ==
        tape.gradients(rms_norm(flat), {&flat, 1}, dy.reshape({6, 4}))[0].values());
}
