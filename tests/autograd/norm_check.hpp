#pragma once

// What the tests of the norms share.

#include <vector>

#include <doctest/doctest.h>

#include <jnorm/autograd/gradcheck.hpp>
#include <jnorm/core/random.hpp>

#include "support/close.hpp"

namespace jnorm::test {

inline Tensor random(const Shape& shape, std::uint64_t seed) {
  Rng rng(seed);
  return randn(shape, rng, DType::float64);
}

// Row values that software has normalized wrongly, in float32, with what is right for eps = 1e-5. A norm that has
// statistics gets them as normalize(row), however it lays the row out.
template <class Normalize>
void check_statistics(const Normalize& normalize) {
  const auto ends = [&](double mean) {
    std::vector<double> row;
    for (int i = 0; i < 16; ++i) row.push_back(mean + i * 1e-3);
    const std::vector<double> y = normalize(row).values();
    return tensor({y.front(), y.back()}, DType::float64);
  };
  // A mean far from zero; the right values have six digits.
  CHECK(ends(0) == close({-1.34164, 1.34164}, 1e-5));
  CHECK(ends(100) == close({-1.34153, 1.34136}, 1e-5));
  CHECK(ends(1000) == close({-1.34151, 1.34424}, 1e-5));
  CHECK(ends(10000) == close({-1.33133, 1.33133}, 1e-5));
  CHECK(normalize({40000, 40001, 40002, 40003}) == close({-1.341635, -0.447212, 0.447212, 1.341635}));
  CHECK(normalize({80000, 80001, 80002, 80003}) == close({-1.341635, -0.447212, 0.447212, 1.341635}));

  // One element that differs by one in 10240.
  std::vector<double> row(10240, 256.0);
  row.back() = 255.0;
  const std::vector<double> y = normalize(row).values();
  CHECK(y.front() == doctest::Approx(0.00941238).epsilon(1e-5));
  CHECK(y.back() == doctest::Approx(-96.373404).epsilon(1e-6));

  // A residual stream; five decimals are given.
  CHECK(normalize({1449.570556640625, 1448.8741455078125, 1450.650390625, 1449.2633056640625, 1449.7763671875,
                   1449.317138671875, 1449.3297119140625, 1449.077880859375, 1449.2181396484375, 1449.4329833984375,
                   1449.1605224609375, 1449.413330078125, 1449.7933349609375, 1450.066650390625, 1449.7762451171875,
                   1450.364990234375}) ==
        close({0.00581, -1.49221, 2.32859, -0.65510, 0.44852, -0.53931, -0.51226, -1.05396, -0.75226, -0.29012,
               -0.87620, -0.33239, 0.48502, 1.07293, 0.44826, 1.71468},
              1e-5));

  // Squares that float32 doesn't hold, and eps beside a large element: 99.9 / sqrt(9.756088 + 1e-5).
  CHECK(normalize({1e25, 2e25, 3e25, 4e25}) == close({-1.341641, -0.447214, 0.447214, 1.341641}));
  std::vector<double> single(1024, 0.0);
  single[0] = 100.0;
  CHECK(normalize(single).values()[0] == doctest::Approx(31.984355).epsilon(2e-7));  // three roundings of float32
  CHECK(normalize({0, 0, 0, 0}) == close({0, 0, 0, 0}, 0.0));
}

// The gradients of <dy, norm(x, gamma, beta)>, differentiated once more by dy, x and the parameters that are there, for
// all four choices of these.
template <class Norm>
void check_recorded_gradients(const Norm& norm, const Shape& x, const Shape& parameter) {
  for (const bool has_gamma : {false, true}) {
    for (const bool has_beta : {false, true}) {
      CAPTURE(has_gamma);
      CAPTURE(has_beta);
      const auto gradients = [&](std::span<const Var> inputs) {
        const Var gamma = has_gamma ? inputs[2] : Var();
        const Var beta = has_beta ? inputs[has_gamma ? 3 : 2] : Var();
        const Var y = norm(inputs[1], gamma, beta);
        Var total;
        for (const Var& gradient : y.tape().recorded_gradients(y, inputs.subspan(1), inputs[0])) {
          const Var term = sum(gradient * random(gradient.shape(), 9));
          total = total.defined() ? total + term : term;
        }
        return total;
      };
      std::vector<Tensor> inputs{random(x, 1), random(x, 2)};
      if (has_gamma) inputs.push_back(random(parameter, 3));
      if (has_beta) inputs.push_back(random(parameter, 4));
      const GradientReport report = check_gradients(gradients, inputs);
      CHECK_MESSAGE(report.passed(), to_string(report));
    }
  }
}

// f(t) = sum of (1, 2) times the normalized (t, 0) with eps = 0.25 is -t / sqrt(1 + t^2): its first three derivatives
// at 0.7. A statistic held constant would show in the second, or in the third alone.
template <class Function>
void check_three_derivatives(const Function& f) {
  Tape tape;
  const Var t = tape.variable(tensor({0.7}, DType::float64));
  const Var value = f(t);
  const Var first = tape.recorded_gradients(value, {&t, 1})[0];
  const Var second = tape.recorded_gradients(sum(first), {&t, 1})[0];
  const Tensor third = tape.gradients(sum(second), {&t, 1})[0];
  CHECK(value.item() == doctest::Approx(-0.57346234).epsilon(1e-8));
  CHECK(first.item() == doctest::Approx(-0.54982008).epsilon(1e-8));
  CHECK(second.item() == doctest::Approx(0.7749142079590942).epsilon(1e-12));
  CHECK(third.item() == doctest::Approx(-0.7132479766449956).epsilon(1e-12));
}

// One cotangent may serve two backwards: it stays as it is, and each gradient has storage of its own.
template <class Norm>
void check_cotangent_untouched(const Norm& norm, const Shape& shape) {
  Tape tape;
  const Var xs[] = {tape.variable(random(shape, 1)), tape.variable(random(shape, 2))};
  const Tensor dy = random(shape, 3), before = dy.clone();
  const Tensor first = tape.gradients(norm(xs[0]), {&xs[0], 1}, dy)[0];
  const std::vector<double> first_values = first.values();
  const Tensor second = tape.gradients(norm(xs[1]), {&xs[1], 1}, dy)[0];
  CHECK(dy.values() == before.values());
  CHECK(first.values() == first_values);
  CHECK_FALSE(first.shares_storage_with(second));
  CHECK_FALSE(first.shares_storage_with(dy));
}

}  // namespace jnorm::test
