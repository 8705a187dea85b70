#include <limits>

#include "autograd/norm_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

TEST_CASE("layer_norm: rows that are hard to normalize come out right, in float32 and float64") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    CAPTURE(to_string(dtype));
    check_statistics([&](const std::vector<double>& row) {
      Tape tape;
      const Shape shape{1, static_cast<Index>(row.size())};
      return layer_norm(tape.variable(tensor(shape, row, DType::float32).to(dtype))).value();
    });
  }
}

TEST_CASE("layer_norm and rms_norm: [52, 7, 64] has the rows of [364, 64], forward and backward") {
  const Tensor x = random({52, 7, 64}, 1), dy = random({52, 7, 64}, 2), gamma = random({64}, 3);
  const auto results = [&](auto norm, const Shape& shape) {
    Tape tape;
    const Var xs[] = {tape.variable(x.reshape(shape)), tape.variable(gamma)};
    const Var y = norm(xs[0], xs[1]);
    const std::vector<Tensor> gradients = tape.gradients(y, xs, dy.reshape(shape));
    return std::vector{y.value().values(), gradients[0].values(), gradients[1].values()};
  };
  const auto layer = [](const Var& v, const Var& g) { return layer_norm(v, g); };
  const auto rms = [](const Var& v, const Var& g) { return rms_norm(v, g); };
  CHECK(results(layer, {52, 7, 64}) == results(layer, {364, 64}));
  CHECK(results(rms, {52, 7, 64}) == results(rms, {364, 64}));
}

TEST_CASE("layer_norm: the gradient of beta is the cotangent, and its derivative by it the identity") {
  for (const bool has_gamma : {false, true}) {
    Tape tape;
    const Var x = tape.variable(random({2}, 1));
    const Var gamma = has_gamma ? tape.variable(random({2}, 2)) : Var();
    const Var beta = tape.variable(random({2}, 3));
    const Var dy = tape.variable(random({2}, 4));
    const Var dbeta = tape.recorded_gradients(layer_norm(x, gamma, beta), {&beta, 1}, dy)[0];
    CHECK(dbeta.value().values() == dy.value().values());
    CHECK(tape.gradients(dbeta, {&dy, 1}, identity(2, DType::float64))[0] == close({1, 0, 0, 1}, 0.0));
  }
}

TEST_CASE("layer_norm: its recorded gradient is differentiated by inputs and cotangent, with and without parameters") {
  check_recorded_gradients([](const Var& x, const Var& gamma, const Var& beta) { return layer_norm(x, gamma, beta); },
                           {2, 4}, {4});
}

TEST_CASE("layer_norm: a transposed value and its copy give the same, gradient too") {
  const Tensor x = random({3, 4}, 1);
  constexpr int swapped[] = {1, 0};
  Tape tape;
  const Var original = tape.variable(x);
  const Var copy = tape.variable(permute(x, swapped));
  const Var gamma = tape.constant(random({3}, 2));
  const Var y = layer_norm(transpose(original), gamma);
  const Var of_copy = layer_norm(copy, gamma);
  tape.backward(sum(square(y)));
  tape.backward(sum(square(of_copy)));
  CHECK(y.value().values() == of_copy.value().values());
  CHECK(original.gradient().values() == permute(copy.gradient(), swapped).values());
}

TEST_CASE("layer_norm: one value may be input, gamma and beta at once") {
  const auto square_like = [](std::span<const Var> x) { return layer_norm(x[0], x[0], x[0]); };
  CHECK(check_gradients(square_like, {random({6}, 1)}, {.order = 3}).passed());
}

TEST_CASE("layer_norm and rms_norm: a negative or NaN eps is refused") {
  Tape tape;
  const Var x = tape.variable(ones({2, 4}));
  CHECK_THROWS_WITH_AS(layer_norm(x, {}, {}, -1.0),
                       doctest::Contains("layer_norm: eps must not be negative, but is -1"), Error);
  CHECK_THROWS_WITH_AS(rms_norm(x, {}, -1.0), doctest::Contains("rms_norm: eps must not be negative, but is -1"),
                       Error);
  CHECK_THROWS_AS(layer_norm(x, {}, {}, std::numeric_limits<double>::quiet_NaN()), Error);
  CHECK_THROWS_AS(rms_norm(x, {}, std::numeric_limits<double>::quiet_NaN()), Error);
}

TEST_CASE("layer_norm: rows without elements have empty gradients") {
  Tape tape;
  const Var x = tape.variable(zeros({4, 0}));
  const Var gamma = tape.variable(zeros({0}));
  const Var beta = tape.variable(zeros({0}));
  tape.backward(layer_norm(x, gamma, beta), {.cotangent = zeros({4, 0}), .free_values = false, .observe = {}});
  CHECK(x.gradient().shape() == Shape{4, 0});
  CHECK(gamma.gradient().shape() == Shape{0});
  CHECK(beta.gradient().shape() == Shape{0});
}

TEST_CASE("layer_norm and rms_norm: the cotangent is not written") {
  check_cotangent_untouched([](const Var& x) { return layer_norm(x); }, {3, 5});
  check_cotangent_untouched([](const Var& x) { return rms_norm(x); }, {3, 5});
}
