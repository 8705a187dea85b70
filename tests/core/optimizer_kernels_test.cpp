#include "core/kernel_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

// The step number t of Adam with betas 0.9 and 0.999.
AdamStep adam_step(int t, double learning_rate, double weight_decay = 0.0, bool coupled = false) {
  return {.learning_rate = learning_rate,
          .beta1 = 0.9,
          .beta2 = 0.999,
          .eps = 1e-8,
          .weight_decay = weight_decay,
          .bias_correction1 = 1 - std::pow(0.9, t),
          .bias_correction2 = 1 - std::pow(0.999, t),
          .coupled = coupled};
}

}  // namespace

TEST_CASE("adam: the first step is the learning rate, against the gradient") {
  for (const DType dtype : kWideTypes) {
    const Tensor p = zeros({1}, dtype), m = zeros({1}, dtype), v = zeros({1}, dtype);
    adam(cpu(), adam_step(1, 0.1), ones({1}, dtype), p, m, v);
    CHECK(relative_error(p.item(), -0.099999999) < 1e-6);
    CHECK(relative_error(m.item(), 0.1) < 1e-6);
    CHECK(relative_error(v.item(), 0.001) < 1e-6);
  }
}

TEST_CASE("adam: eps is added to the corrected root") {
  const Tensor p = zeros({1}), m = zeros({1}), v = zeros({1});
  adam(cpu(), adam_step(1, 1e-3), full({1}, 1e-8), p, m, v);
  CHECK(relative_error(p.item(), -5.0e-4) < 1e-5);
}

TEST_CASE("adam: the stored moments stay uncorrected") {
  const Tensor p = zeros({1}, DType::float64), m = zeros({1}, DType::float64), v = zeros({1}, DType::float64);
  adam(cpu(), adam_step(1, 0.1), ones({1}, DType::float64), p, m, v);
  adam(cpu(), adam_step(2, 0.1), ones({1}, DType::float64), p, m, v);
  CHECK(relative_error(m.item(), 0.19) < 1e-12);
  CHECK(relative_error(v.item(), 0.001999) < 1e-12);
  CHECK(relative_error(p.item(), -0.199999998) < 1e-12);  // both steps have m / v = 1
}

TEST_CASE("adam: decoupled weight decay shrinks the parameter by learning rate times decay, without a gradient too") {
  const Tensor p = full({1}, 2.0, DType::float64), m = zeros({1}, DType::float64), v = zeros({1}, DType::float64);
  adam(cpu(), adam_step(1, 0.1, 0.5), zeros({1}, DType::float64), p, m, v);
  CHECK(relative_error(p.item(), 2.0 - 0.1 * 0.5 * 2.0) < 1e-14);
  CHECK(m.item() == 0.0);
}

TEST_CASE("adam: a small decoupled decay keeps its size in float32, where 1 minus it is rounded") {
  const Tensor p = random({4096}, DType::float32, 1), m = zeros({4096}), v = zeros({4096});
  double before = 0, after = 0;
  for (const double value : p.values()) before += std::abs(value);
  for (int t = 1; t <= 100; ++t) adam(cpu(), adam_step(t, 3e-4, 0.01), zeros({4096}), p, m, v);
  for (const double value : p.values()) after += std::abs(value);
  CHECK(relative_error(1 - after / before, 2.99955e-4) < 1e-3);  // 1 - (1 - 3e-6)^100; rounding evens out
}

TEST_CASE("adam: coupled weight decay is part of the gradient") {
  const Tensor p = full({1}, 2.0, DType::float64), m = zeros({1}, DType::float64), v = zeros({1}, DType::float64);
  adam(cpu(), adam_step(1, 0.1, 0.5, true), ones({1}, DType::float64), p, m, v);
  CHECK(relative_error(m.item(), 0.1 * (1 + 0.5 * 2)) < 1e-14);
  CHECK(relative_error(p.item(), 2.0 - 0.1) < 1e-7);
}

TEST_CASE("adam: every element of a long parameter, with any number of threads") {
  const Tensor g = random({70001}, DType::float32, 1), start = random({70001}, DType::float32, 2);
  const auto step = [&] {
    Tensor p = start.clone(), m = zeros({70001}), v = zeros({70001});
    adam(cpu(), adam_step(1, 0.1), g, p, m, v);
    return p;
  };
  const std::vector<double> gs = g.values();
  std::vector<double> right = start.values();
  for (std::size_t i = 0; i < right.size(); ++i) right[i] -= 0.1 * gs[i] / (std::abs(gs[i]) + 1e-8);
  CHECK(distance(step(), right) < tolerance(DType::float32));
  CHECK(independent_of_threads(step));
}

TEST_CASE("sgd: plain, with momentum, and with weight decay") {
  for (const DType dtype : kWideTypes) {
    const Tensor p = tensor({1, 2}, dtype), g = tensor({10, -10}, dtype), velocity = zeros({2}, dtype);
    sgd(cpu(), {.learning_rate = 0.1, .momentum = 0.0, .weight_decay = 0.0}, g, p, {});
    CHECK(distance(p, {0, 3}) < tolerance(dtype));
    sgd(cpu(), {.learning_rate = 0.1, .momentum = 0.0, .weight_decay = 1.0}, zeros({2}, dtype), p, {});
    CHECK(distance(p, {0, 2.7}) < tolerance(dtype));
    const SgdStep step{.learning_rate = 0.1, .momentum = 0.5, .weight_decay = 0.0};
    sgd(cpu(), step, g, p, velocity);
    sgd(cpu(), step, g, p, velocity);
    CHECK(distance(velocity, {15, -15}) < tolerance(dtype));
    CHECK(distance(p, {-2.5, 5.2}) < tolerance(dtype));
    sgd(cpu(), {.learning_rate = 0.1, .momentum = 0.5, .weight_decay = 2.0}, g, p, velocity);
    CHECK(distance(velocity, {7.5 + 10 - 5, -7.5 - 10 + 10.4}) < tolerance(dtype));
  }
}

TEST_CASE("optimizers: every handle sees the step, and the version counts it") {
  const Tensor p = ones({2}), handle = p, m = zeros({2}), v = zeros({2});
  const std::uint32_t before = handle.version();
  adam(cpu(), adam_step(1, 0.1), ones({2}), p, m, v);
  CHECK(handle.at({0}) < 1.0);
  CHECK(handle.version() == before + 1);
  sgd(cpu(), {.learning_rate = 0.1, .momentum = 0.0, .weight_decay = 0.0}, ones({2}), p, {});
  CHECK(handle.version() == before + 2);
}

TEST_CASE("sum_of_squares: float32 gradients of 1e20 do not overflow") {
  double sum = kNaN;
  cpu().sum_of_squares(full({100}, 1e20), sum);
  CHECK(relative_error(std::sqrt(sum), 1e21) < 1e-7);
}

TEST_CASE("sum_of_squares: every element once, with any number of threads") {
  for (const DType dtype : kWideTypes) {
    const Tensor x = random({100003}, dtype, 1);
    double right = 0, sum = kNaN;
    for (const double value : x.values()) right += value * value;
    cpu().sum_of_squares(x, sum);
    CHECK(relative_error(sum, right) < 1e-13);  // both in float64
    CHECK(independent_of_threads([&] {
      double result = 0;
      cpu().sum_of_squares(x, result);
      return full({}, result, DType::float64);
    }));
  }
}

TEST_CASE("sum_of_squares: of nothing it is 0, and infinity and NaN pass through") {
  double sum = kNaN;
  cpu().sum_of_squares(zeros({0}), sum);
  CHECK(sum == 0.0);
  cpu().sum_of_squares(tensor({1, kInfinity}), sum);
  CHECK(sum == kInfinity);
  cpu().sum_of_squares(tensor({1, kNaN}), sum);
  CHECK(std::isnan(sum));
}

TEST_CASE("first_non_finite: the index of the first NaN or infinity, or -1") {
  const auto first = [](const Tensor& x) {
    Index result = -2;
    cpu().first_non_finite(x, result);
    return result;
  };
  for (const DType dtype : kWideTypes) {
    CHECK(first(tensor({1, -2, 0}, dtype)) == -1);
    CHECK(first(zeros({0}, dtype)) == -1);
    CHECK(first(tensor({1, kNaN, kInfinity}, dtype)) == 1);
    CHECK(first(tensor({-kInfinity, 0}, dtype)) == 0);
    std::vector<double> values(100001, 3e38);  // near float32's largest value
    CHECK(first(tensor({100001}, values, dtype)) == -1);
    values[100000] = kNaN;
    CHECK(first(tensor({100001}, values, dtype)) == 100000);
    values[40000] = -kInfinity;
    CHECK(first(tensor({100001}, values, dtype)) == 40000);
  }
}
