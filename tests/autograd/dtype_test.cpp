// The narrow dtypes are storage formats: operations take them, compute in float32 and round once.

#include <doctest/doctest.h>

#include <cmath>

#include <jnorm/autograd/catalogue.hpp>
#include <jnorm/autograd/custom.hpp>
#include <jnorm/core/random.hpp>

using namespace jnorm;

namespace {

constexpr DType kDTypes[] = {DType::float32, DType::bfloat16, DType::float16};

std::vector<Tensor> converted(const std::vector<Tensor>& tensors, DType dtype) {
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors) result.push_back(tensor.to(dtype));
  return result;
}

// The output, then a gradient for each input, under the cotangent u.
std::vector<Tensor> values_and_gradients(const OperationCase& operation, const std::vector<Tensor>& inputs,
                                         const Tensor& u) {
  Tape tape;
  std::vector<Var> xs;
  for (const Tensor& input : inputs) xs.push_back(tape.variable(input));
  const Var y = operation.function(xs);
  std::vector<Tensor> results{y.value()};
  for (Tensor& gradient : tape.gradients(y, xs, u)) results.push_back(std::move(gradient));
  return results;
}

double largest(const Tensor& x) {
  double result = 0.0;
  for (const double value : x.values()) result = std::max(result, std::fabs(value));
  return result;
}

// The worst error on the scale of the largest element.
double relative_error(const Tensor& ours, const Tensor& right) {
  REQUIRE(ours.shape() == right.shape());
  return largest(subtract(ours.to(DType::float64), right)) / std::max(largest(right), 1.0);
}

}  // namespace

TEST_CASE("dtypes: every operation takes every dtype, and is right to a few roundings") {
  for (const OperationCase& operation : operation_cases(1)) {
    for (const DType dtype : kDTypes) {
      CAPTURE(operation.operation);
      CAPTURE(operation.variant);
      CAPTURE(to_string(dtype));
      Rng rng(3);
      const std::vector<Tensor> narrow = converted(operation.inputs, dtype);
      const std::vector<Tensor> exact = converted(narrow, DType::float64);  // the same numbers
      Tape tape;
      std::vector<Var> xs;
      for (const Tensor& input : exact) xs.push_back(tape.variable(input));
      const Tensor u = randn(operation.function(xs).shape(), rng, DType::float64).to(dtype);

      const std::vector<Tensor> ours = values_and_gradients(operation, narrow, u);
      const std::vector<Tensor> right = values_and_gradients(operation, exact, u.to(DType::float64));
      for (std::size_t i = 0; i < right.size(); ++i) {
        if (!right[i].defined()) continue;
        CAPTURE(i);
        CHECK(ours[i].dtype() == dtype);
        // A derivative that is composed of a few operations rounds after each.
        CHECK(relative_error(ours[i], right[i]) <= 8 * machine_epsilon(dtype));
      }
    }
  }
}

TEST_CASE("to: rounds, and takes the gradient back in the dtype that it came in") {
  Tape tape;
  const Var x = tape.variable(tensor({0.001, 257.0}, DType::float64));
  const Var y = to(x, DType::bfloat16);
  CHECK(y.value().values() == std::vector<double>{0.00099945068359375, 256.0});
  tape.backward(y, {.cotangent = tensor({1.0, 3.0}, DType::bfloat16)});
  CHECK(x.gradient().dtype() == DType::float64);
  CHECK(x.gradient().values() == std::vector<double>{1.0, 3.0});
}

TEST_CASE("to: takes the tangent to the dtype of the output") {
  Tape tape;
  const Var x = tape.variable(tensor({0.001, 257.0}, DType::float64));
  const Tensor tangent = tape.push_forward(to(x, DType::bfloat16), x, tensor({1.0, -3.0}, DType::float64));
  CHECK(tangent.dtype() == DType::bfloat16);
  CHECK(tangent.values() == std::vector<double>{1.0, -3.0});
}

TEST_CASE("to: int32 has no derivative") {
  Tape tape;
  const Var x = tape.variable(tensor({1.0}));
  CHECK_THROWS_WITH_AS(to(x, DType::int32), doctest::Contains("to: expected two floating-point dtypes"), Error);
}

TEST_CASE("norms: dgamma and dbeta over 10,000 bfloat16 rows of 0.001 are 9.9945, rounded once") {
  constexpr Index rows = 10000;
  Tape tape;
  // Rows of -1 and 1 are their own x_hat, so dgamma[1] and dbeta[1] sum the cotangents.
  std::vector<double> values;
  for (Index row = 0; row < rows; ++row) values.insert(values.end(), {-1.0, 1.0});
  const Var x = tape.constant(tensor({rows, 2}, values, DType::bfloat16));
  const Var gamma = tape.variable(ones({2}, DType::bfloat16)), beta = tape.variable(zeros({2}, DType::bfloat16));
  const Var parameters[] = {gamma, beta};
  const double right = static_cast<double>(static_cast<float>(BFloat16(9.9945)));
  const auto check = [&](const Var& y, std::span<const Var> of) {
    for (const Tensor& gradient : tape.gradients(y, of, full({rows, 2}, 0.001, DType::bfloat16))) {
      CHECK(gradient.at({1}) == right);
    }
  };
  check(layer_norm(x, gamma, beta, 0.0), parameters);
  check(rms_norm(x, gamma, 0.0), {parameters, 1});
  check(group_norm(x, 1, gamma, beta, {.eps = 0.0}), parameters);
}

TEST_CASE("gelu and gelu_tanh: float16 at 256 is 256 with slope 1, though x^2 and x^3 overflow float16") {
  for (const auto activation : {&gelu, &gelu_tanh}) {
    Tape tape;
    const Var x = tape.variable(tensor({41.0, 256.0}, DType::float16));
    const Var y = activation(x, SourceLine::here());
    tape.backward(y, {.cotangent = ones({2}, DType::float16)});
    CHECK(y.value().values() == std::vector<double>{41.0, 256.0});
    CHECK(x.gradient().values() == std::vector<double>{1.0, 1.0});
  }
}

TEST_CASE("custom: a narrow input runs the lambdas in float32") {
  const Custom square_of = custom(
      "square_of", [](auto& x, auto& y) { y = x * x; },
      [](auto& x, auto& /*y*/, auto& dy, auto& dx) { dx = 2 * x * dy; });
  Tape tape;
  const Var x = tape.variable(tensor({3.0, 300.0}, DType::float16));
  const Var y = square_of(x);
  tape.backward(y, {.cotangent = tensor({1.0, 0.5}, DType::float16)});
  CHECK(y.dtype() == DType::float16);
  CHECK(y.value().at({0}) == 9.0);
  CHECK(x.gradient().values() == std::vector<double>{6.0, 300.0});
}

TEST_CASE("layer_norm: the recorded gradient of a nearly constant float16 row is the fused one") {
  Tape tape;
  const Var x = tape.variable(tensor({1.0, 1.0, 1.0, 1.0009765625}, DType::float16));  // 1/s is 307, its cube too large
  const Tensor u = tensor({1.0, -0.5, 0.25, 0.5}, DType::float16);
  const Var y = layer_norm(x);
  const Tensor fused = tape.gradients(y, {&x, 1}, u)[0].to(DType::float64);
  const Tensor recorded = tape.recorded_gradients(y, {&x, 1}, tape.constant(u))[0].value().to(DType::float64);
  CHECK(relative_error(recorded, fused) < 2 * machine_epsilon(DType::float16));
}
