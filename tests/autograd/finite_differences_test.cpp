#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include <jnorm/autograd/finite_differences.hpp>
#include <jnorm/core/random.hpp>

using namespace jnorm;

TEST_CASE("finite differences: the sweep over steps finds exp's derivative, and its own error") {
  const DifferenceSweep sweep = sweep_steps([](double t) { return std::exp(1.0 + t); }, 1.0);
  const double error = std::fabs(sweep.value() - std::exp(1.0));
  CHECK(error < 1e-11);
  CHECK(sweep.error < 1e-11);
  CHECK(error < 10 * sweep.error);
}

TEST_CASE("finite differences: the error over the step is a V: it falls with the step's fourth power, then rises") {
  const DifferenceSweep sweep = sweep_steps([](double t) { return std::sin(1.0 + t); }, 1.0);
  CHECK(sweep.steps.size() == 7);
  CHECK(sweep.steps[0].step == 0.1);
  const double large = std::fabs(sweep.steps[0].value - std::cos(1.0));
  const double smaller = std::fabs(sweep.steps[1].value - std::cos(1.0));
  CHECK(large / smaller > 9000);  // 10^4, but for the next term of the series
  CHECK(large / smaller < 11000);
  CHECK(std::fabs(sweep.steps[6].value - std::cos(1.0)) > 100 * std::fabs(sweep.value() - std::cos(1.0)));
}

TEST_CASE("finite differences: steps follow the input's scale, to both sides") {
  const auto log_at = [](double x) { return [x](double t) { return std::log(x + t); }; };
  for (const double x : {1e-9, 1e-3, 1.0, 1e6}) {
    CAPTURE(x);
    CHECK(std::fabs(sweep_steps(log_at(x), x).value() * x - 1.0) < 1e-8);
  }
}

TEST_CASE("finite differences: those of noise don't settle") {
  Rng rng(1);
  CHECK(sweep_steps([&](double t) { return t + 1e-3 * rng.normal(); }, 1.0).error > 1e-6);
  CHECK(std::isinf(sweep_steps([](double) { return std::nan(""); }, 1.0).error));
}

TEST_CASE("finite differences: a constant's are exactly 0") {
  const DifferenceSweep sweep = sweep_steps([](double) { return 1e30; }, 1.0);
  CHECK(sweep.value() == 0.0);
  CHECK(sweep.error == 0.0);
}

TEST_CASE("finite differences: the table has a line a step and marks the best") {
  const DifferenceSweep sweep = sweep_steps([](double t) { return std::sin(1.0 + t); }, 1.0);
  const std::string table = to_string(sweep);
  CHECK(std::count(table.begin(), table.end(), '\n') == 7);
  CHECK(table.find("<- best") != std::string::npos);
}

TEST_CASE("finite differences: a kink is told from a bend") {
  const auto is_kink = [](double (*f)(double)) { return local_slope(f, f(0.0), 1e-3, 1e-6).kink; };
  CHECK(is_kink([](double t) { return std::fabs(t); }));
  CHECK(is_kink([](double t) { return std::fmax(t, 0.0) + t * t; }));
  CHECK_FALSE(is_kink([](double t) { return 100 * t * t; }));
  CHECK_FALSE(is_kink([](double t) { return std::exp(t); }));
  CHECK_FALSE(is_kink([](double t) { return t; }));
  const auto relu = [](double t) { return std::fmax(t, 0.0); };
  CHECK(local_slope(relu, 0.0, 1e-3, 1e-6).left == 0.0);
  CHECK(local_slope(relu, 0.0, 1e-3, 1e-6).right == 1.0);
}
