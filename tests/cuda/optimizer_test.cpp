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
  const Tensor there = on_device(x);
  device_kernels().clip_to_norm({&there, 1}, on_device(full({}, norm, DType::float64)), largest, {&y, 1});
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
        adam(device_kernels(), step, there.gradient, there.parameter, there.m, there.v);
        adam(cpu(), step, right.gradient, right.parameter, right.m, right.v);
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
  adam(device_kernels(), step, g, p, m, v);
  CHECK(relative_error(v.item(), 90.0) < 1e-6);
  CHECK(relative_error(p.item(), -0.1) < machine_epsilon(DType::float16));
}

TEST_CASE("cuda adam: moments of the narrow dtypes must be float32") {
  const Tensor p = on_device(zeros({2}, DType::bfloat16));
  CHECK_THROWS_AS(adam(device_kernels(), kAdamStep, p, p, p, p), Error);
}

TEST_CASE("cuda sgd: plain, and with momentum and weight decay, at every dtype and length") {
  for (const DType dtype : kFloatingTypes) {
    for (const Index length : {1, 3, 4, 1030}) {
      for (const double momentum : {0.0, 0.9}) {
        const State start({length}, dtype);
        const SgdStep step{.learning_rate = 0.1, .momentum = momentum, .weight_decay = 0.05};
        const State there = start.to(test_device()), right = start.to(DType::float64);
        sgd(device_kernels(), step, there.gradient, there.parameter, momentum == 0.0 ? Tensor() : there.m);
        sgd(cpu(), step, right.gradient, right.parameter, momentum == 0.0 ? Tensor() : right.m);
        check_near(there, right, dtype);
      }
    }
  }
}

TEST_CASE("cuda optimizers: many parameters of all dtypes at once, some empty, one of more chunks than one") {
  std::vector<AdamUpdate> adam_updates;
  std::vector<SgdUpdate> sgd_updates;
  std::vector<State> adam_right, sgd_right, adam_there, sgd_there;
  for (int i = 0; i < 120; ++i) {  // more than a launch takes
    const DType dtype = i < 100 ? DType::float32 : kFloatingTypes[static_cast<std::size_t>(i % 4)];
    const State start({i == 7 ? 0 : i == 50 ? 2 * 8192 + 5 : i}, dtype);
    AdamStep step = kAdamStep;
    step.learning_rate = 0.001 * i;  // each has its own numbers
    const SgdStep plain{.learning_rate = 0.001 * i, .momentum = 0.9, .weight_decay = 0.05};
    for (auto* right : {&adam_right, &sgd_right}) right->push_back(start.to(DType::float64));
    for (auto* there : {&adam_there, &sgd_there}) there->push_back(start.to(test_device()));
    const State &a = adam_there.back(), &s = sgd_there.back();
    adam_updates.push_back({step, a.gradient, a.parameter, a.m, a.v});
    sgd_updates.push_back({plain, s.gradient, s.parameter, s.m});
    adam(cpu(), step, adam_right.back().gradient, adam_right.back().parameter, adam_right.back().m,
         adam_right.back().v);
    sgd(cpu(), plain, sgd_right.back().gradient, sgd_right.back().parameter, sgd_right.back().m);
  }
  device_kernels().adam(adam_updates);
  device_kernels().sgd(sgd_updates);
  for (std::size_t i = 0; i < adam_right.size(); ++i) {
    CAPTURE(i);
    check_near(adam_there[i], adam_right[i], adam_there[i].parameter.dtype());
    check_near(sgd_there[i], sgd_right[i], sgd_there[i].parameter.dtype());
  }
}

TEST_CASE("cuda optimizers: every handle sees the step, and the version counts it") {
  const Tensor p = on_device(ones({2})), handle = p, m = on_device(zeros({2})), v = on_device(zeros({2}));
  const Tensor g = on_device(ones({2}));
  const std::uint32_t before = handle.version(), moment_before = m.version();
  adam(device_kernels(), kAdamStep, g, p, m, v);
  CHECK(handle.at({0}) < 1.0);
  CHECK(handle.version() == before + 1);
  CHECK(m.version() == moment_before + 1);
  sgd(device_kernels(), {.learning_rate = 0.1, .momentum = 0.0, .weight_decay = 0.0}, g, p, {});
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

TEST_CASE("cuda clip_to_norm: many tensors of all dtypes at once, some empty") {
  std::vector<Tensor> xs, ys;
  std::vector<std::vector<double>> right;
  for (Index i = 0; i < 250; ++i) {  // more than a launch takes
    const DType dtype = i < 230 ? DType::float32 : kFloatingTypes[static_cast<std::size_t>(i % 4)];
    const Tensor x = random({i % 5 * 3}, dtype, static_cast<unsigned>(i));
    right.push_back(x.values());
    for (double& value : right.back()) value *= 0.25;
    xs.push_back(on_device(x));
    ys.push_back(garbage_on_device(x.shape(), dtype));
  }
  device_kernels().clip_to_norm(xs, on_device(full({}, 8.0, DType::float64)), 2.0, ys);
  for (std::size_t i = 0; i < ys.size(); ++i) {
    CAPTURE(i);
    CHECK(ys[i].values() == right[i]);
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
