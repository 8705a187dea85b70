#include "cuda/device_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

// gamma and beta may be undefined. dy has K copies of x's rows.
struct Inputs {
  Tensor x, alpha, gamma, beta, dy;

  template <class F>
  Inputs each(const F& f) const {
    const auto given = [&](const Tensor& tensor) { return tensor.defined() ? f(tensor) : tensor; };
    return {f(x), f(alpha), given(gamma), given(beta), f(dy)};
  }
};
struct Results {
  Tensor y, dx, dalpha, dgamma;
};

Results filled(const Inputs& in, double value) {
  const Index copies = in.x.size() == 0 ? 1 : in.dy.size() / in.x.size();
  const auto output = [&](const Shape& shape) { return full(shape, value, in.x.dtype()).to(in.x.device()); };
  return {output(in.x.shape()), output(in.dy.shape()), output({copies}), output({copies, in.x.row_length()})};
}

Results run(const Inputs& in, double start = kNaN, bool add = false) {
  const Results results = filled(in, start);
  const Kernels& kernels = in.x.device().kernels();
  kernels.dynamic_tanh(in.x, in.alpha, in.gamma, in.beta, results.y);
  kernels.dynamic_tanh_dx(in.dy, in.x, in.alpha, in.gamma, {results.dx, add});
  kernels.dynamic_tanh_dparameters(in.dy, in.x, in.alpha, in.gamma, {results.dalpha, add}, {results.dgamma, add});
  return results;
}
Results run_on_device(const Inputs& in) { return run(in.each(on_device)); }

// The CPU's, in float64 on the same elements.
Results right_results(const Inputs& in) {
  return run(in.each([](const Tensor& tensor) { return tensor.to(DType::float64); }));
}

Inputs random_inputs(Index rows, Index length, DType dtype, Index copies = 1) {
  return {.x = random({rows, length}, dtype, 1),
          .alpha = full({}, 0.75, dtype),
          .gamma = random({length}, dtype, 2),
          .beta = random({length}, dtype, 3),
          .dy = random({copies, rows, length}, dtype, 4)};
}

// What sums over rows lose, and the one rounding of a narrow result.
double rounding_of_sums(DType dtype) { return std::max(a_few_roundings(dtype), tolerance(statistics_dtype(dtype))); }

void check_against_cpu(const Inputs& in) {
  const DType dtype = in.x.dtype();
  const Results got = run_on_device(in), right = right_results(in);
  CAPTURE(dtype);
  CAPTURE(in.x.shape());
  CHECK(distance(got.y, right.y) < rounding_of_sums(dtype));
  CHECK(distance(got.dx, right.dx) < rounding_of_sums(dtype));
  CHECK(distance(got.dgamma, right.dgamma) < rounding_of_sums(dtype));
  CHECK(distance(got.dalpha, right.dalpha) < rounding_of_sums(dtype));
}

}  // namespace

TEST_CASE("cuda dynamic_tanh: rows of every length and dtype") {
  for (const DType dtype : kFloatingTypes) {
    for (const Index length : kRowLengths) check_against_cpu(random_inputs(5, length, dtype));
    check_against_cpu(random_inputs(3, 1032, dtype));
  }
}

TEST_CASE("cuda dynamic_tanh: rows of several parts, and of several tiles of columns") {
  check_against_cpu(random_inputs(100, 17, DType::float32));
  check_against_cpu(random_inputs(100, 8, DType::bfloat16));
  check_against_cpu(random_inputs(20, 1032, DType::float32));
}

TEST_CASE("cuda dynamic_tanh: several cotangents at once") {
  check_against_cpu(random_inputs(20, 17, DType::float32, 3));
  check_against_cpu(random_inputs(20, 64, DType::float32, 3));
}

TEST_CASE("cuda dynamic_tanh: absent parameters") {
  Inputs in = random_inputs(5, 64, DType::float32);
  in.gamma = in.beta = Tensor();
  check_against_cpu(in);
}

TEST_CASE("cuda dynamic_tanh: gradients are added where the destination says so") {
  const Inputs in = random_inputs(5, 17, DType::float64).each(on_device);
  const Results right = run(in), added = run(in, 1.0, true);
  const auto plus_one = [](const Tensor& tensor) {
    std::vector<double> values = tensor.values();
    for (double& value : values) value += 1.0;
    return values;
  };
  CHECK(distance(added.dx, plus_one(right.dx)) < a_few_roundings(DType::float64));
  CHECK(distance(added.dgamma, plus_one(right.dgamma)) < a_few_roundings(DType::float64));
  CHECK(distance(added.dalpha, plus_one(right.dalpha)) < a_few_roundings(DType::float64));
}

TEST_CASE("cuda dynamic_tanh: a gradient that nobody wants is left out") {
  const Inputs in = random_inputs(5, 17, DType::float32).each(on_device);
  const Results right = run(in), one = filled(in, kNaN);
  device_kernels().dynamic_tanh_dx(in.dy, in.x, in.alpha, in.gamma, {});
  device_kernels().dynamic_tanh_dparameters(in.dy, in.x, in.alpha, in.gamma, {}, {});
  device_kernels().dynamic_tanh_dparameters(in.dy, in.x, in.alpha, in.gamma, {one.dalpha}, {});
  device_kernels().dynamic_tanh_dparameters(in.dy, in.x, in.alpha, in.gamma, {}, {one.dgamma});
  CHECK(distance(one.dalpha, right.dalpha) == 0.0);
  CHECK(distance(one.dgamma, right.dgamma) == 0.0);
}

TEST_CASE("cuda dynamic_tanh: no rows give zero parameter gradients") {
  const Results none = run_on_device(random_inputs(0, 4, DType::float32));
  CHECK(distance(none.dgamma, {0, 0, 0, 0}) == 0.0);
  CHECK(distance(none.dalpha, {0}) == 0.0);
  CHECK(run_on_device(random_inputs(4, 0, DType::float32)).y.size() == 0);
}

TEST_CASE("cuda dynamic_tanh: the derivative far out isn't 0") {
  const Tensor x = tensor({10.0, -20.0}), dy = ones({2}), alpha = ones({});
  const Tensor dx = garbage_on_device({2}, DType::float32);
  device_kernels().dynamic_tanh_dx(on_device(dy), on_device(x), on_device(alpha), {}, {dx});
  CHECK(relative_error(dx.values()[0], 8.2446144e-9) < 1e-6);
  CHECK(relative_error(dx.values()[1], 1.6993417e-17) < 1e-6);
}

TEST_CASE("cuda dynamic_tanh: the same bits in every schedule") {
  const Inputs in = random_inputs(70, 33, DType::float32);
  const Results first = run_on_device(in);
  for_each_schedule([&] {
    const Results again = run_on_device(in);
    CHECK(distance(again.dgamma, first.dgamma) == 0.0);
    CHECK(distance(again.dalpha, first.dalpha) == 0.0);
  });
}
