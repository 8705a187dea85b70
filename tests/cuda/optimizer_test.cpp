#include "cuda/device_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

constexpr AdamStep kAdamStep{.learning_rate = 0.1,
                             .beta1 = 0.9,
                             .beta2 = 0.999,
                             .eps = 1e-8,
                             .weight_decay = 0.05,
                             .bias_correction1 = 0.19,  // of the second step
                             .bias_correction2 = 0.001999,
                             .coupled = false};

// A parameter, its gradient and its moments; the second moment isn't negative.
struct State {
  Tensor gradient, parameter, m, v;

  State(const Shape& shape, DType dtype) {
    const DType wide = statistics_dtype(dtype);
    gradient = random(shape, dtype, 1);
    parameter = random(shape, dtype, 2);
    m = random(shape, wide, 3);
    v = full(shape, 0.5, wide);
  }
  State to(Device device) const {
    return convert([&](const Tensor& t) { return t.to(device); });
  }
  State to(DType dtype) const {
    return convert([&](const Tensor& t) { return t.to(dtype).clone(); });
  }

 private:
  template <class F>
  State convert(const F& f) const {
    State other = *this;
    for (Tensor* tensor : {&other.gradient, &other.parameter, &other.m, &other.v}) *tensor = f(*tensor);
    return other;
  }
};

void check_near(const State& got, const State& right, DType dtype) {
  CHECK(distance(got.parameter, right.parameter) < a_few_roundings(dtype));
  CHECK(distance(got.m, right.m) < tolerance(statistics_dtype(dtype)));
  CHECK(distance(got.v, right.v) < tolerance(statistics_dtype(dtype)));
}

double device_norm(const std::vector<Tensor>& parts) {
  std::vector<Tensor> there;
  for (const Tensor& part : parts) there.push_back(on_device(part));
  const Tensor norm = garbage_on_device({}, DType::float64);
  device_kernels().global_norm(there, norm);
  return norm.item();
}

double device_squares(const Tensor& x) {
  double result = kNaN;
  device_kernels().sum_of_squares(on_device(x), result);
  return result;
}

Index device_first(const Tensor& x) {
  Index result = -2;
  device_kernels().first_non_finite(on_device(x), result);
  return result;
}

Tensor device_clipped(const Tensor& x, double norm, double largest) {
  const Tensor y = garbage_on_device(x.shape(), x.dtype());
  device_kernels().clip_to_norm(on_device(x), on_device(full({}, norm, DType::float64)), largest, y);
  return y;
}

}  // namespace

TEST_CASE("cuda adam: decoupled and coupled, at every dtype and length") {
  for (const DType dtype : kFloatingTypes) {
    for (const Index length : {1, 3, 4, 1030}) {
      for (const bool coupled : {false, true}) {
        const State start({length}, dtype);
        AdamStep step = kAdamStep;
        step.coupled = coupled;
        const State there = start.to(test_device()), right = start.to(DType::float64);
        device_kernels().adam(step, there.gradient, there.parameter, there.m, there.v);
        cpu().adam(step, right.gradient, right.parameter, right.m, right.v);
        check_near(there, right, dtype);
      }
    }
  }
}

TEST_CASE("cuda adam: a float16 gradient of 300, whose square float16 does not hold") {
  const Tensor p = on_device(zeros({1}, DType::float16)), g = on_device(full({1}, 300.0, DType::float16));
  const Tensor m = on_device(zeros({1})), v = on_device(zeros({1}));
  AdamStep step = kAdamStep;
  step.bias_correction1 = 0.1, step.bias_correction2 = 0.001;
  device_kernels().adam(step, g, p, m, v);
  CHECK(relative_error(v.item(), 90.0) < 1e-6);
  CHECK(relative_error(p.item(), -0.1) < machine_epsilon(DType::float16));
}

TEST_CASE("cuda adam: moments of the narrow dtypes must be float32") {
  const Tensor p = on_device(zeros({2}, DType::bfloat16));
  CHECK_THROWS_AS(device_kernels().adam(kAdamStep, p, p, p, p), Error);
}

TEST_CASE("cuda sgd: plain, and with momentum and weight decay, at every dtype and length") {
  for (const DType dtype : kFloatingTypes) {
    for (const Index length : {1, 3, 4, 1030}) {
      for (const double momentum : {0.0, 0.9}) {
        const State start({length}, dtype);
        const SgdStep step{.learning_rate = 0.1, .momentum = momentum, .weight_decay = 0.05};
        const State there = start.to(test_device()), right = start.to(DType::float64);
        device_kernels().sgd(step, there.gradient, there.parameter, momentum == 0.0 ? Tensor() : there.m);
        cpu().sgd(step, right.gradient, right.parameter, momentum == 0.0 ? Tensor() : right.m);
        check_near(there, right, dtype);
      }
    }
  }
}

TEST_CASE("cuda optimizers: every handle sees the step, and the version counts it") {
  const Tensor p = on_device(ones({2})), handle = p, m = on_device(zeros({2})), v = on_device(zeros({2}));
  const Tensor g = on_device(ones({2}));
  const std::uint32_t before = handle.version(), moment_before = m.version();
  device_kernels().adam(kAdamStep, g, p, m, v);
  CHECK(handle.at({0}) < 1.0);
  CHECK(handle.version() == before + 1);
  CHECK(m.version() == moment_before + 1);
  device_kernels().sgd({.learning_rate = 0.1, .momentum = 0.0, .weight_decay = 0.0}, g, p, {});
  CHECK(handle.version() == before + 2);
}

TEST_CASE("cuda global_norm: of all parts, in every dtype, over more chunks than one and more parts than a launch") {
  std::vector<Tensor> parts;
  double squares = 0;
  for (const DType dtype : kFloatingTypes) {
    for (const Index length : {1, 5, 0, 33000}) parts.push_back(random({length}, dtype, 1));
  }
  for (unsigned i = 0; i < 100; ++i) parts.push_back(random({7}, DType::float32, i));
  for (const Tensor& part : parts) {
    for (const double value : part.values()) squares += value * value;
  }
  CHECK(relative_error(device_norm(parts), std::sqrt(squares)) < 1e-13);  // all in float64
}

TEST_CASE("cuda global_norm: 0 of no parts") {
  CHECK(device_norm({}) == 0.0);
  CHECK(device_norm({zeros({0}), zeros({3})}) == 0.0);
}

TEST_CASE("cuda global_norm: squares beyond float32, and beyond float64") {
  CHECK(relative_error(device_norm({full({100}, 1e20)}), 1e21) < 1e-7);
  CHECK(relative_error(device_norm({tensor({3e200}, DType::float64), tensor({4e200}, DType::float64)}), 5e200) < 1e-14);
  CHECK(relative_error(device_norm({tensor({3e-200, 4e-200}, DType::float64)}), 5e-200) < 1e-14);
  CHECK(relative_error(device_norm({zeros({3}), tensor({3e-200, 4e-200}, DType::float64)}), 5e-200) < 1e-14);
  CHECK(relative_error(device_norm({ones({3}), tensor({3e200, 4e200}, DType::float64)}), 5e200) < 1e-14);
}

TEST_CASE("cuda global_norm: infinite or NaN where an element is") {
  for (const DType dtype : kFloatingTypes) {
    CHECK(device_norm({tensor({1, -kInfinity}, dtype), ones({4}, dtype)}) == kInfinity);
    CHECK(device_norm({ones({2}, DType::float64), tensor({1, -kInfinity}, dtype)}) == kInfinity);
    CHECK(std::isnan(device_norm({tensor({1, kNaN}, dtype), tensor({kInfinity}, dtype)})));
  }
}

TEST_CASE("cuda clip_to_norm: scales down to the largest norm, and only down") {
  for (const DType dtype : kFloatingTypes) {
    const Tensor x = random({1030}, dtype, 1);
    std::vector<double> right = x.values();
    CHECK(device_clipped(x, 2.0, 2.0).values() == right);
    CHECK(device_clipped(x, kInfinity, 2.0).values() == right);
    CHECK(device_clipped(x, kNaN, 2.0).values() == right);
    for (double& value : right) value *= 0.25;
    CHECK(device_clipped(x, 8.0, 2.0).values() == right);  // a power of two: exact
  }
}

TEST_CASE("cuda sum_of_squares: float32 squares that overflow, nothing, infinity and NaN") {
  CHECK(relative_error(std::sqrt(device_squares(full({100}, 1e20))), 1e21) < 1e-7);
  CHECK(device_squares(zeros({0})) == 0.0);
  CHECK(device_squares(tensor({1, 2}, DType::float64)) == 5.0);
  CHECK(device_squares(tensor({1, kInfinity})) == kInfinity);
  CHECK(std::isnan(device_squares(tensor({1, kNaN}))));
}

TEST_CASE("cuda first_non_finite: the index of the first NaN or infinity, or -1") {
  for (const DType dtype : kFloatingTypes) {
    CHECK(device_first(tensor({1, -2, 0}, dtype)) == -1);
    CHECK(device_first(zeros({0}, dtype)) == -1);
    CHECK(device_first(tensor({1, kNaN, kInfinity}, dtype)) == 1);
    CHECK(device_first(tensor({-kInfinity, 0}, dtype)) == 0);
    std::vector<double> values(100001, 6e4);  // near float16's largest value
    CHECK(device_first(tensor({100001}, values, dtype)) == -1);
    values[100000] = kNaN;
    CHECK(device_first(tensor({100001}, values, dtype)) == 100000);
    values[40000] = -kInfinity;
    CHECK(device_first(tensor({100001}, values, dtype)) == 40000);
  }
}
