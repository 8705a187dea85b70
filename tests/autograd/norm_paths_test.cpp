#include <doctest/doctest.h>

#include <cmath>

#include <jnorm/autograd/norm_jacobian.hpp>
#include <jnorm/autograd/norm_paths.hpp>
#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/matrix_measures.hpp>
#include <jnorm/core/random.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

const Tensor kX = tensor({1, 2, 3, 4}, DType::float64);
const Tensor kGamma = tensor({2, 1, 1, 1}, DType::float64);
const Tensor kDy = tensor({1, 1, 0, 0}, DType::float64);

Tensor sum_of(const std::vector<DerivationStep>& steps) {
  Tensor sum = steps.at(0).value;
  for (std::size_t i = 1; i < steps.size(); ++i) sum = add(sum, steps[i].value);
  return sum;
}

// The tape's own gradients of x and gamma for random rows of width 8.
template <class Norm, class Paths>
void check_against_tape(Norm norm, Paths paths) {
  Rng rng(3);
  for (int repetition = 0; repetition < 5; ++repetition) {
    const Tensor x = randn({8}, rng, DType::float64);
    const Tensor gamma = randn({8}, rng, DType::float64);
    const Tensor dy = randn({8}, rng, DType::float64);
    Tape tape;
    const Var recorded_x = tape.variable(x, "x");
    const Var recorded_gamma = tape.variable(gamma, "gamma");
    const std::vector<Var> inputs = {recorded_x, recorded_gamma};
    const std::vector<Tensor> gradients = tape.gradients(norm(recorded_x, recorded_gamma), inputs, dy);
    const NormPaths parts = paths(x, gamma, dy, 0.1);
    CHECK(relative_distance(parts.value("dx"), gradients[0]) < 1e-14);
    CHECK(relative_distance(parts.value("dgamma"), gradients[1]) < 1e-14);
    CHECK(relative_distance(sum_of(parts.paths), parts.value("dx")) < 1e-15);
  }
}

}  // namespace

TEST_CASE("layer_norm_backward_paths: three paths that add up, for x = 1, 2, 3, 4 [LN.2a] [LN.2b] [LN.2c]") {
  const NormPaths parts = layer_norm_backward_paths(kX, kGamma, kDy, 0.0);
  CHECK(parts.value("m").item() == 2.5);
  CHECK(parts.value("variance").item() == 1.25);
  CHECK(parts.value("s").item() == doctest::Approx(std::sqrt(1.25)).epsilon(1e-15));
  CHECK(parts.value("x_hat") == close({-1.3416408, -0.4472136, 0.4472136, 1.3416408}));
  CHECK(parts.value("u") == close({2, 1, 0, 0}));
  CHECK(parts.value("mean(u)").item() == 0.75);
  CHECK(parts.value("mean(u x_hat)").item() == doctest::Approx(-0.7826238).epsilon(1e-7));
  CHECK(parts.value("directly") == close({1.7888544, 0.8944272, 0, 0}));
  CHECK(parts.value("through the mean") == close({-0.6708204, -0.6708204, -0.6708204, -0.6708204}));
  CHECK(parts.value("through the variance") == close({-0.9391486, -0.3130495, 0.3130495, 0.9391486}));
  CHECK(parts.value("dx") == close({0.1788854, -0.0894427, -0.3577709, 0.2683282}));
  CHECK(parts.value("dgamma") == close({-1.3416408, -0.4472136, 0, 0}));
  CHECK(parts.value("dbeta") == close({1, 1, 0, 0}));
}

TEST_CASE("rms_norm_backward_paths: two paths that add up, for x = 1, 2, 3, 4 [RMS.2a] [RMS.2b]") {
  const NormPaths parts = rms_norm_backward_paths(kX, kGamma, kDy, 0.0);
  CHECK(parts.value("mean(x^2)").item() == 7.5);
  CHECK(parts.value("x_hat") == close({0.365148, 0.730297, 1.095445, 1.460593}));
  CHECK(parts.value("dx") == close({0.681610, 0.267775, -0.146059, -0.194746}));
}

TEST_CASE("norm paths: their sum is the tape's derivative") {
  check_against_tape([](const Var& x, const Var& gamma) { return layer_norm(x, gamma, {}, 0.1); },
                     layer_norm_backward_paths);
  check_against_tape([](const Var& x, const Var& gamma) { return rms_norm(x, gamma, 0.1); }, rms_norm_backward_paths);
}

TEST_CASE("norm paths: a row that can't be is refused") {
  const Tensor constant = ones({4}, DType::float64);
  CHECK_THROWS_WITH_AS(layer_norm_backward_paths(constant, kGamma, kDy, 0.0),
                       "layer_norm: s is 0 with all numbers of x equal and eps = 0, and there is no derivative", Error);
  CHECK_NOTHROW(layer_norm_backward_paths(constant, kGamma, kDy, 1e-5));
  CHECK_THROWS_WITH_AS(rms_norm_backward_paths(zeros({4}), kGamma, kDy, 0.0),
                       "rms_norm: r is 0 with all numbers of x 0 and eps = 0, and there is no derivative", Error);
  CHECK_THROWS_WITH_AS(layer_norm_backward_paths(kX, kGamma, kDy, -1.0),
                       "layer_norm: eps must not be negative, but is -1", Error);
  CHECK_THROWS_WITH_AS(layer_norm_backward_paths(kX, ones({3}), kDy, 0.0),
                       "layer_norm: x has 4 numbers, but gamma has 3", Error);
  CHECK_THROWS_WITH_AS(layer_norm_backward_paths(full({4}, 1e200, DType::float64), kGamma, kDy, std::nan("")),
                       "layer_norm: eps must not be negative, but is nan", Error);
  CHECK_THROWS_WITH_AS(rms_norm_backward_paths(full({4}, 1e200, DType::float64), kGamma, kDy, 0.0),
                       "rms_norm: r is inf: the numbers are too large or not finite", Error);
  CHECK_THROWS_AS(layer_norm_backward_paths(tensor({1, std::nan("")}), ones({2}), ones({2}), 0.0), Error);
}
