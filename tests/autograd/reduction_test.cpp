#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include <jnorm/autograd/ops.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Result {
  Tensor value, gradient;
};

// A reduction to a scalar and its gradient, in float64.
Result at(std::initializer_list<double> x, const std::function<Var(const Var&)>& reduce) {
  Tape tape;
  const Var leaf = tape.variable(tensor(x, DType::float64));
  const Var y = reduce(leaf);
  tape.backward(y);
  return {y.value(), leaf.gradient()};
}

}  // namespace

TEST_CASE("reduction: the gradient of a maximum is shared equally among ties") {
  const Result largest = at({3, 1, 3, 3}, [](const Var& x) { return max(x) * 6.0; });
  CHECK(largest.value.item() == 18.0);
  CHECK(largest.gradient == close({2, 0, 2, 2}));
  CHECK(at({3, 1, 3, 1}, [](const Var& x) { return min(x); }).gradient == close({0, 0.5, 0, 0.5}));
}

TEST_CASE("reduction: a NaN wins every maximum and minimum, wherever it stands") {
  for (const Index place : {0, 1, 19, 20}) {  // in the first lane, another, and beyond whole vectors
    std::vector<double> values(21, 1.0);
    values[static_cast<std::size_t>(place)] = kNaN;
    Tape tape;
    const Var x = tape.variable(tensor({21}, values));
    CHECK(std::isnan(max(x).item()));
    CHECK(std::isnan(min(x).item()));
    CHECK(std::isnan(max(reshape(x, {21, 1}), {0}).item()));
  }
}

TEST_CASE("reduction: over no elements a sum is 0, a mean NaN, and a maximum an error") {
  Tape tape;
  const Var x = tape.variable(ones({2, 0}));
  CHECK(sum(x, {1}).value() == close({0, 0}));
  CHECK(std::isnan(mean(x).item()));
  CHECK(l2_norm(x).item() == 0.0);
  CHECK(logsumexp(x).item() == -kInfinity);
  CHECK_THROWS_WITH_AS(max(x, {1}), doctest::Contains("max: there are no elements to compare in [2, 0]"), Error);
  CHECK_THROWS_WITH_AS(min(x), doctest::Contains("min: there are no elements to compare in [2, 0]"), Error);
  CHECK(max(x, {0}).shape() == Shape{0});  // no results, so nothing to compare
}

TEST_CASE("reduction: any axes, kept or not, are those that are named") {
  Tape tape;
  const Var x = tape.variable(tensor({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}).reshape({2, 3, 2}));
  CHECK(max(x, {1}).value() == close({4, 5, 10, 11}));
  CHECK(max(x, {0, -1}).value() == close({7, 9, 11}));
  CHECK(max(x, {0, 2}, Keep::yes).shape() == Shape{1, 3, 1});
  CHECK(sum(x, {0, 1}).value() == close({30, 36}));
  CHECK(min(x, {0}).value() == close({0, 1, 2, 3, 4, 5}));
  CHECK_THROWS_WITH_AS(max(x, {3}), doctest::Contains("max: axis 3 is out of range for shape [2, 3, 2]"), Error);
  CHECK_THROWS_WITH_AS(logsumexp(x, {1, -2}), doctest::Contains("logsumexp: axis -2 is named twice"), Error);
}

TEST_CASE("reduction: the variance is biased by default, unbiased with correction 1") {
  const Result biased = at({1, 2, 3, 4}, [](const Var& x) { return variance(x); });
  CHECK(biased.value.item() == 1.25);
  CHECK(biased.gradient == close({-0.75, -0.25, 0.25, 0.75}));
  const Result unbiased = at({1, 2, 3, 4}, [](const Var& x) { return variance(x, 1); });
  CHECK(unbiased.value.item() == doctest::Approx(5.0 / 3));
  CHECK(unbiased.gradient == close({-1, -1.0 / 3, 1.0 / 3, 1}));
}

TEST_CASE("reduction: the variance of numbers with a big mean doesn't cancel") {
  Tape tape;
  const Var x = tape.variable(tensor({16777214, 16777216}));  // 2^24 - 2 and 2^24: squares would lose all
  CHECK(variance(x).item() == 1.0);
}

TEST_CASE("reduction: the unbiased variance of one number is NaN") {
  Tape tape;
  CHECK(std::isnan(variance(tape.variable(tensor({5})), 1).item()));
  CHECK_THROWS_WITH_AS(variance(tape.variable(tensor({5})), -1),
                       doctest::Contains("variance: the correction must not be negative, got -1"), Error);
}

TEST_CASE("reduction: a standard deviation of 0 has the gradient 0") {
  const Result flat = at({3, 3, 3}, [](const Var& x) { return standard_deviation(x); });
  CHECK(flat.value.item() == 0.0);
  CHECK(flat.gradient == close({0, 0, 0}, 0.0));
  CHECK(at({1, 2, 3, 4}, [](const Var& x) { return standard_deviation(x); }).value.item() ==
        doctest::Approx(std::sqrt(1.25)));
}

TEST_CASE("reduction: logsumexp neither overflows nor underflows") {
  CHECK(at({1000, 1000}, [](const Var& x) { return logsumexp(x); }).value.item() ==
        doctest::Approx(1000 + std::log(2.0)));
  const Result deep = at({-200, -200, -200, -200}, [](const Var& x) { return logsumexp(x) + 200.0; });
  CHECK(deep.value.item() == doctest::Approx(1.386294));
  CHECK(deep.gradient == close({0.25, 0.25, 0.25, 0.25}));
}

TEST_CASE("reduction: logsumexp of nothing but -inf is -inf, with a gradient of 0") {
  const Result none = at({-kInfinity, -kInfinity}, [](const Var& x) { return logsumexp(x); });
  CHECK(none.value.item() == -kInfinity);
  CHECK(none.gradient == close({0, 0}, 0.0));
}

TEST_CASE("reduction: logsumexp with a +inf is +inf, and a NaN wins") {
  const Result infinite = at({1, kInfinity}, [](const Var& x) { return logsumexp(x); });
  CHECK(infinite.value.item() == kInfinity);
  CHECK(infinite.gradient.at({0}) == 0.0);
  CHECK(std::isnan(at({kInfinity, kNaN}, [](const Var& x) { return logsumexp(x); }).value.item()));
}

TEST_CASE("reduction: the norms and their gradients") {
  CHECK(at({3, -4}, [](const Var& x) { return l1_norm(x); }).value.item() == 7.0);
  CHECK(at({3, -4}, [](const Var& x) { return l2_norm(x); }).value.item() == 5.0);
  CHECK(at({3, -4}, [](const Var& x) { return max_norm(x); }).value.item() == 4.0);
  CHECK(at({3, -4}, [](const Var& x) { return l1_norm(x); }).gradient == close({1, -1}));
  CHECK(at({3, -4}, [](const Var& x) { return l2_norm(x); }).gradient == close({0.6, -0.8}));
  CHECK(at({3, -4}, [](const Var& x) { return max_norm(x); }).gradient == close({0, -1}));
}

TEST_CASE("reduction: at the zero vector the gradient of a norm is 0") {
  CHECK(at({0, 0, 0}, [](const Var& x) { return l2_norm(x); }).gradient == close({0, 0, 0}, 0.0));
  CHECK(at({0, 0, 0}, [](const Var& x) { return l1_norm(x); }).gradient == close({0, 0, 0}, 0.0));
  CHECK(at({0, 0, 0}, [](const Var& x) { return max_norm(x); }).gradient == close({0, 0, 0}, 0.0));
}

TEST_CASE("reduction: a float32 norm doesn't overflow where its result doesn't") {
  Tape tape;
  CHECK(l2_norm(tape.variable(tensor({3e30, 4e30}))).item() == doctest::Approx(5e30));
}
