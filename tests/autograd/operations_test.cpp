// Every operation's derivative under every witness, to third order, over the cases of the catalogue.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>
#include <sstream>

#include <jnorm/autograd/catalogue.hpp>
#include <jnorm/core/random.hpp>

using namespace jnorm;

namespace {

Tensor copy_of(const Tensor& stacked, Index copy) {
  const Shape shape = stacked.shape().without_leading();
  const std::vector<double> values = stacked.values();
  return tensor(
      shape,
      std::span(values).subspan(static_cast<std::size_t>(copy * shape.size()), static_cast<std::size_t>(shape.size())),
      stacked.dtype());
}

// The largest difference of elements; infinite where the shapes differ.
double distance(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return std::numeric_limits<double>::infinity();
  const std::vector<double> left = a.values();
  const std::vector<double> right = b.values();
  double largest = 0.0;
  for (std::size_t i = 0; i < left.size(); ++i) largest = std::max(largest, std::fabs(left[i] - right[i]));
  return largest;
}

// Sums of tens of terms of size 1, taken in another order.
constexpr double kRounding = 1e-13;

}  // namespace

TEST_CASE("operations: all witnesses agree, first to third order") {
  for (const OperationCase& operation : operation_cases(1)) {
    CAPTURE(operation.operation);
    CAPTURE(operation.variant);
    const GradientReport report = check_operation(operation, {.seed = 2, .order = 3});
    CHECK_MESSAGE(report.passed(), to_string(report));
  }
}

TEST_CASE("operations: several cotangents or tangents at once are so many sweeps") {
  constexpr Index copies = 3;
  for (const OperationCase& operation : operation_cases(1)) {
    CAPTURE(operation.operation);
    CAPTURE(operation.variant);
    Rng rng(2);
    Tape tape;
    std::vector<Var> xs;
    for (const Tensor& input : operation.inputs) xs.push_back(tape.variable(input));
    const Var y = operation.function(xs);
    const Tensor u = randn(y.shape().with_leading(copies), rng, DType::float64);
    const std::vector<Tensor> gradients = tape.gradients(y, xs, u);
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const Tensor v = randn(xs[i].shape().with_leading(copies), rng, DType::float64);
      const Tensor tangents = tape.push_forward(y, xs[i], v);
      for (Index copy = 0; copy < copies; ++copy) {
        CHECK(distance(copy_of(gradients[i], copy), tape.gradients(y, {&xs[i], 1}, copy_of(u, copy))[0]) < kRounding);
        CHECK(distance(copy_of(tangents, copy), tape.push_forward(y, xs[i], copy_of(v, copy))) < kRounding);
      }
    }
  }
}

TEST_CASE("operations: the catalogue knows every operation") {
  std::set<std::string> names;
  for (const OperationCase& operation : operation_cases(1)) names.insert(operation.operation);
  std::istringstream known(
      "add subtract multiply divide affine reshape broadcast permute sum mean matmul linear embedding relu gelu "
      "gelu_tanh "
      "softmax log_softmax cross_entropy attention causal_attention rotary layer_norm rms_norm "
      "scale_norm dynamic_tanh group_norm batch_norm batch_norm_evaluation "
      "select sampled_matmul masked_matmul "
      "silu log1p expm1 sigmoid pow maximum minimum clamp where dropout "
      "slice place concat index_select index_add gather scatter_add "
      "max min variance standard_deviation logsumexp l1_norm l2_norm max_norm");
  for (std::string name; known >> name;) {
    CHECK_MESSAGE(names.count(name) == 1, name);
  }
}
