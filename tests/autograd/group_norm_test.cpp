#include <cmath>
#include <limits>

#include <jnorm/core/parallel.hpp>

#include "autograd/norm_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

TEST_CASE("group_norm: rows that are hard to normalize come out right") {
  check_statistics([](const std::vector<double>& row) {  // one group, channels last
    Tape tape;
    return group_norm(tape.variable(tensor({1, static_cast<Index>(row.size())}, row, DType::float32)), 1).value();
  });
  check_statistics([](const std::vector<double>& row) {  // one channel, its values on a trailing axis
    Tape tape;
    const Var x = tape.variable(tensor({1, 1, static_cast<Index>(row.size())}, row, DType::float32));
    return group_norm(x, 1, {}, {}, {.channel_axis = 1}).value();
  });
}

TEST_CASE("group_norm: neighbouring channels share a group, samples don't") {
  Tape tape;
  const Var x = tape.variable(tensor({{1, 3, 10, 50}, {-2, -8, 0, 1}}, DType::float64));
  CHECK(group_norm(x, 2, {}, {}, {.eps = 0.0}).value() == close({-1, 1, -1, 1, 1, -1, -1, 1}, 1e-14));
}

TEST_CASE("group_norm: one group over [N, C] is layer_norm") {
  Tape tape;
  const Var x = tape.variable(random({3, 8}, 1)), gamma = tape.variable(random({8}, 2)),
            beta = tape.variable(random({8}, 3));
  const Tensor grouped = group_norm(x, 1, gamma, beta).value(), layer = layer_norm(x, gamma, beta).value();
  for (std::size_t i = 0; i < 24; ++i) CHECK(grouped.values()[i] == doctest::Approx(layer.values()[i]).epsilon(1e-13));
}

TEST_CASE("group_norm: gamma belongs to channels, and inside the backward means [GN.2] [GN.3]") {
  // Two channels with two trailing positions each, in one group.
  Tape tape;
  const Var xs[] = {tape.variable(tensor({1, 2, 2}, std::vector<double>{1, 2, 3, 5}, DType::float64)),
                    tape.variable(tensor({2, 1}, DType::float64)), tape.variable(tensor({10, 20}, DType::float64))};
  const Var y = group_norm(xs[0], 1, xs[1], xs[2], {.eps = 0.0, .channel_axis = 1});
  const Tensor dy = tensor({1, 2, 2}, std::vector<double>{1, -1, 2, 0.5}, DType::float64);
  const std::vector<Tensor> gradients = tape.gradients(y, xs, dy);
  // mean 2.75, s = sqrt(35)/4, x_hat = (-7, -3, 1, 9) / sqrt(35), u = (2, -2, 2, 0.5)
  const double root = std::sqrt(35.0);
  CHECK(y.value() == close({10 - 14 / root, 10 - 6 / root, 20 + 1 / root, 20 + 9 / root}, 1e-14));
  // mean(u) = 0.625 and mean(u x_hat) = -0.375 / sqrt(35), so dx = 4/sqrt(35) (u - 0.625 + 0.375/35 (-7, -3, 1, 9))
  const double d = 0.375 / 35;
  CHECK(gradients[0] == close({4 / root * (1.375 - 7 * d), 4 / root * (-2.625 - 3 * d), 4 / root * (1.375 + d),
                               4 / root * (-0.125 + 9 * d)},
                              1e-14));
  CHECK(gradients[1] == close({-4 / root, 6.5 / root}, 1e-14));
  CHECK(gradients[2] == close({0, 2.5}, 1e-14));
}

TEST_CASE("group_norm: a gamma and a beta that two of them share get the sum of both gradients") {
  Tape tape;
  const Var x = tape.variable(tensor({{1, 3}}, DType::float64));  // x_hat = (-1, 1)
  const Var gamma = tape.variable(ones({2}, DType::float64)), beta = tape.variable(zeros({2}, DType::float64));
  const Var once = group_norm(x, 1, gamma, beta, {.eps = 0.0});
  const Var mirrored = group_norm(-x, 1, gamma, beta, {.eps = 0.0});
  tape.backward(sum(once + mirrored * 3.0));
  CHECK(gamma.gradient() == close({2, -2}, 1e-14));
  CHECK(beta.gradient() == close({4, 4}, 0.0));
}

TEST_CASE("group_norm: its first three derivatives are right") {
  check_three_derivatives([](const Var& t) {
    const Var x = reshape(t, {1, 1}) * tensor({{1, 0}}, DType::float64);  // [t, 0]
    return sum(group_norm(x, 1, t.tape().constant(tensor({1, 2}, DType::float64)), {}, {.eps = 0.25}));
  });
}

TEST_CASE("group_norm: its recorded gradient is differentiated, with and without parameters") {
  check_recorded_gradients([](const Var& x, const Var& gamma,
                              const Var& beta) { return group_norm(x, 2, gamma, beta, {.channel_axis = 1}); },
                           {2, 4, 3}, {4});
}

TEST_CASE("group_norm: a group of one value gives beta and passes no gradient") {
  Tape tape;
  const Var x = tape.variable(random({3, 4}, 1)), beta = tape.variable(tensor({1, 2, 3, 4}, DType::float64));
  const Var y = group_norm(x, 4, {}, beta);
  CHECK(y.value() == close({1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}, 0.0));
  for (const double element : tape.gradients(y, {&x, 1}, random({3, 4}, 2))[0].values()) CHECK(element == 0.0);
}

TEST_CASE("group_norm: float64 values whose squares float64 doesn't hold are normalized") {
  Tape tape;
  const Var x = tape.variable(tensor({{1e200, 2e200, 3e200, 4e200}}, DType::float64));
  CHECK(group_norm(x, 1).value() == close({-1.341641, -0.447214, 0.447214, 1.341641}));
}

TEST_CASE("group_norm: results do not depend on the number of threads") {
  const int before = thread_count();
  std::vector<std::vector<double>> results;
  for (const int threads : {1, 2, 3}) {
    set_thread_count(threads);
    Tape tape;
    const Var xs[] = {tape.variable(random({40, 64, 30}, 1)), tape.variable(random({64}, 2))};
    const Var y = group_norm(xs[0], 8, xs[1], {}, {.channel_axis = 1});
    std::vector<double> all = y.value().values();
    for (const Tensor& gradient : tape.gradients(y, xs, random({40, 64, 30}, 3))) {
      const std::vector<double> values = gradient.values();
      all.insert(all.end(), values.begin(), values.end());
    }
    results.push_back(std::move(all));
  }
  set_thread_count(before);
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
}

TEST_CASE("group_norm: the cotangent is not written") {
  check_cotangent_untouched([](const Var& x) { return group_norm(x, 2); }, {3, 6});
}

TEST_CASE("group_norm: bad arguments are refused") {
  Tape tape;
  const Var x = tape.variable(ones({2, 6, 4}));
  CHECK_THROWS_WITH_AS(group_norm(x, 0), doctest::Contains("group_norm: groups must be positive, but is 0"), Error);
  CHECK_THROWS_WITH_AS(group_norm(x, -2), doctest::Contains("group_norm: groups must be positive, but is -2"), Error);
  CHECK_THROWS_WITH_AS(group_norm(x, 4, {}, {}, {.channel_axis = 1}),
                       doctest::Contains("group_norm: 4 groups don't divide the 6 channels of x [2, 6, 4]"), Error);
  CHECK_THROWS_WITH_AS(group_norm(x, 2, {}, {}, {.eps = -1.0}),
                       doctest::Contains("group_norm: eps must not be negative, but is -1"), Error);
  CHECK_THROWS_AS(group_norm(x, 2, {}, {}, {.eps = std::numeric_limits<double>::quiet_NaN()}), Error);
  CHECK_THROWS_WITH_AS(group_norm(x, 2, {}, {}, {.channel_axis = 3}),
                       doctest::Contains("group_norm: channel axis 3 is out of range for shape [2, 6, 4]"), Error);
  CHECK_THROWS_WITH_AS(group_norm(x, 2, tape.variable(ones({4})), {}, {.channel_axis = 1}),
                       doctest::Contains("group_norm: x [2, 6, 4] has 6 channels on axis 1, but gamma has 4"), Error);
  CHECK_THROWS_AS(group_norm(tape.variable(ones({})), 1), Error);
}
