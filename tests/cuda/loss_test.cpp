#include "cuda/device_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

struct Problem {
  Tensor logits, targets;
  CrossEntropySettings settings = {};
  Tensor weights = {};  // of the dtype of statistics
};
struct Loss {
  Tensor loss, lse;
};

Tensor indices_of(const std::vector<std::int32_t>& values) {
  return indices({static_cast<Index>(values.size())}, values);
}
// Targets that count, and some that are ignored.
Tensor some_targets(Index rows, Index classes) {
  std::vector<std::int32_t> targets;
  for (Index r = 0; r < rows; ++r)
    targets.push_back(r % 3 == 1 ? kIgnoreIndex : static_cast<std::int32_t>((r * 7) % classes));
  return indices_of(targets);
}
Tensor some_weights(Index classes, DType dtype) {
  std::vector<double> weights;
  for (Index c = 0; c < classes; ++c) weights.push_back(c == 1 ? 0.0 : 0.25 * static_cast<double>(c % 5 + 1));
  return tensor({classes}, weights, statistics_dtype(dtype));
}

Shape loss_shape(const Problem& problem) {
  return problem.settings.reduction == Reduction::none ? problem.targets.shape() : Shape{};
}
Tensor on_device_if_defined(const Tensor& x) { return x.defined() ? on_device(x) : x; }
Tensor wide_if_defined(const Tensor& x) { return x.defined() ? x.to(DType::float64) : x; }

Loss forward(const Problem& problem) {
  const DType dtype = problem.logits.dtype();
  const Tensor loss = garbage_on_device(loss_shape(problem), dtype);
  const Tensor lse = garbage_on_device(problem.targets.shape(), statistics_dtype(dtype));
  device_kernels().cross_entropy(problem.settings, on_device(problem.logits), on_device(problem.targets),
                                 on_device_if_defined(problem.weights), loss, lse);
  return {loss.to(Device::cpu()), lse.to(Device::cpu())};
}
Loss right_forward(const Problem& problem) {
  const Loss right{garbage(loss_shape(problem), DType::float64), garbage(problem.targets.shape(), DType::float64)};
  cpu().cross_entropy(problem.settings, problem.logits.to(DType::float64), problem.targets,
                      wide_if_defined(problem.weights), right.loss, right.lse);
  return right;
}

// dloss holds `copies` of the loss.
Tensor backward(const Problem& problem, const Tensor& dloss, Index copies, const Tensor& before = {}) {
  const Shape shape = problem.logits.shape().with_leading(copies);
  const Tensor dlogits = before.defined() ? on_device(before) : garbage_on_device(shape, problem.logits.dtype());
  device_kernels().cross_entropy_dx(problem.settings, on_device(dloss), on_device(problem.logits),
                                    on_device(problem.targets), on_device_if_defined(problem.weights),
                                    on_device(forward(problem).lse), {dlogits, before.defined()});
  return dlogits.to(Device::cpu());
}
Tensor right_backward(const Problem& problem, const Tensor& dloss, Index copies, const Tensor& before = {}) {
  const Shape shape = problem.logits.shape().with_leading(copies);
  const Tensor dlogits = before.defined() ? before.to(DType::float64).clone() : garbage(shape, DType::float64);
  cpu().cross_entropy_dx(problem.settings, dloss.to(DType::float64), problem.logits.to(DType::float64), problem.targets,
                         wide_if_defined(problem.weights), right_forward(problem).lse, {dlogits, before.defined()});
  return dlogits;
}

double bound(DType dtype) { return std::max(a_few_roundings(dtype), tolerance(statistics_dtype(dtype))); }

void check_all(const Problem& problem) {
  const DType dtype = problem.logits.dtype();
  CAPTURE(dtype);
  CAPTURE(problem.logits.shape());
  CAPTURE(static_cast<int>(problem.settings.reduction));
  const Loss got = forward(problem), right = right_forward(problem);
  CHECK(distance(got.loss, right.loss) < bound(dtype));
  CHECK(distance(got.lse, right.lse) < tolerance(statistics_dtype(dtype)));
  const Tensor dloss = random(loss_shape(problem).with_leading(2), dtype, 5);
  CHECK(distance(backward(problem, dloss, 2), right_backward(problem, dloss, 2)) < bound(dtype));
}

}  // namespace

TEST_CASE("cuda cross_entropy: every reduction, with smoothing, weights and ignored rows [CE.1] [CE.2]") {
  for (const DType dtype : kFloatingTypes) {
    for (const Index classes : dtype == DType::float32 ? std::vector<Index>{1, 33, 1024} : std::vector<Index>{33}) {
      const Problem plain{random({7, classes}, dtype, 1), some_targets(7, classes)};
      for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
        for (const double smoothing : {0.0, 0.1}) {
          Problem problem = plain;
          problem.settings = {.label_smoothing = smoothing, .reduction = reduction};
          check_all(problem);
          problem.weights = some_weights(classes, dtype);
          check_all(problem);
        }
      }
    }
  }
}

TEST_CASE("cuda cross_entropy: vocabularies of 50,257 and 131,072 classes") {
  for (const Index classes : {50257, 131072}) {
    check_all({random({2, classes}, DType::float32, 1), indices_of({3, 50000})});
    check_all({random({2, classes}, DType::bfloat16, 1), indices_of({3, 50000})});
  }
}

TEST_CASE("cuda cross_entropy: many short rows") {
  const Index rows = on_gpu() ? 70001 : 301;  // config_test.cpp covers the grid
  const Problem problem{random({rows, 3}, DType::float32, 1), some_targets(rows, 3)};
  CHECK(distance(forward(problem).loss, right_forward(problem).loss) < bound(DType::float32));
}

TEST_CASE("cuda cross_entropy: smoothing counts no ignored rows") {
  Problem problem{tensor({{2, 0}, {0, 0}}), indices_of({0, kIgnoreIndex}), {.label_smoothing = 0.2}};
  CHECK(forward(problem).loss.item() == doctest::Approx(0.326928).epsilon(1e-5));
  problem = {tensor({{1, 2}, {3, .4}}), indices_of({kIgnoreIndex, 1}), {.label_smoothing = 0.1}, tensor({.2, .3})};
  CHECK(forward(problem).loss.item() == doctest::Approx(2.540451).epsilon(1e-5));
  problem.settings.label_smoothing = 0;
  CHECK(forward(problem).loss.item() == doctest::Approx(2.671645).epsilon(1e-5));
}

TEST_CASE("cuda cross_entropy: a loss is right where exp underflows") {
  CHECK(forward({tensor({{0, -200}}), indices_of({1})}).loss.item() == 200.0);
  CHECK(forward({tensor({{-200, -200, -200, -200}}), indices_of({2})}).loss.item() ==
        doctest::Approx(1.386294).epsilon(1e-6));
}

TEST_CASE("cuda cross_entropy: at logits of 10,000 the gradient's sum is 0, though lse is rounded") {
  const Problem problem{tensor({{10000, 10000.3, 9999.5}}), indices_of({0})};
  const Tensor dx = backward(problem, tensor({1}), 1);
  CHECK(distance(dx, right_backward(problem, tensor({1}), 1)) < bound(DType::float32));
  CHECK(std::abs(dx.values()[0] + dx.values()[1] + dx.values()[2]) < 1e-6);
}

TEST_CASE("cuda cross_entropy: nothing but ignored rows has loss and gradient 0, whatever the logits hold") {
  const Problem problem{tensor({{kNaN, 1}, {kInfinity, 0}}), indices_of({kIgnoreIndex, kIgnoreIndex})};
  CHECK(forward(problem).loss.item() == 0.0);
  CHECK(distance(backward(problem, tensor({1}), 1), {0, 0, 0, 0}) == 0.0);
}

TEST_CASE("cuda cross_entropy: no rows have the loss 0") {
  const Problem problem{zeros({0, 3}), indices_of({})};
  CHECK(forward(problem).loss.item() == 0.0);
  CHECK(backward(problem, tensor({1}), 1).size() == 0);
}

TEST_CASE("cuda cross_entropy: a target out of range reads nothing and makes the loss NaN") {
  for (const std::int32_t target : {3, -4, 2147483647}) {
    const Problem problem{random({2, 3}, DType::float32, 1), indices_of({0, target})};
    CHECK(std::isnan(forward(problem).loss.item()));
    CHECK(std::isnan(backward(problem, tensor({1}), 1).values()[5]));
  }
}

TEST_CASE("cuda cross_entropy: a gradient is added to what is there, and an ignored row adds nothing") {
  for (const DType dtype : kFloatingTypes) {
    for (const Index classes : {5, 1024}) {
      const Problem problem{random({4, classes}, dtype, 1), some_targets(4, classes)};
      const Tensor before = random({1, 4, classes}, dtype, 2), dloss = tensor({3}, dtype);
      CHECK(distance(backward(problem, dloss, 1, before), right_backward(problem, dloss, 1, before)) < bound(dtype));
    }
  }
}

TEST_CASE("cuda cross_entropy: the same bits in every run and under every order of threads") {
  const Problem problem{random({70, 1025}, DType::float32, 1), some_targets(70, 1025), {.label_smoothing = 0.1}};
  const Tensor loss = forward(problem).loss, dx = backward(problem, tensor({1}), 1);
  for_each_schedule([&] {
    CHECK(identical(forward(problem).loss, loss));
    CHECK(identical(backward(problem, tensor({1}), 1), dx));
  });
}
