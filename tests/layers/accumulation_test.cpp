#include <jnorm/layers/accumulation.hpp>

#include <cmath>

#include <doctest/doctest.h>

#include <jnorm/autograd/ops.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

// A "model" of two classes whose logits are [0, x w] at a position with token x, so that the loss of target 0 is
// log(1 + exp(x w)). Its targets: 0, or kIgnoreIndex.
struct Counts {
  Parameter w{"w", ones({1, 1}, DType::float64)};
  Tape tape;
  std::vector<Batch> micro_batches;
  std::vector<double> x;  // by token

  // A micro-batch of positions with these losses, and as many more that are ignored.
  void add(const std::vector<double>& losses, Index ignored = 0) {
    std::vector<std::int32_t> tokens, targets;
    for (std::size_t i = 0; i < losses.size() + static_cast<std::size_t>(ignored); ++i) {
      tokens.push_back(static_cast<std::int32_t>(x.size()));
      x.push_back(i < losses.size() ? std::log(std::expm1(losses[i])) : 1.0);
      targets.push_back(i < losses.size() ? 0 : kIgnoreIndex);
    }
    const auto size = static_cast<Index>(tokens.size());
    micro_batches.push_back({{.tokens = indices({size}, tokens)}, indices({size}, targets)});
  }

  Var logits(const Batch& batch) {
    std::vector<double> inputs;
    for (Index i = 0; i < batch.tokens.size(); ++i) {
      inputs.push_back(0.0);
      inputs.push_back(x[static_cast<std::size_t>(batch.tokens.data<std::int32_t>()[i])]);
    }
    return tape.constant(tensor({batch.tokens.size(), 2}, inputs, DType::float64)) * tape.parameter(w);
  }

  double accumulate(const AccumulationOptions& options = {}) {
    return accumulate_gradients(
               tape, micro_batches, [this](const Batch& batch) { return logits(batch); }, options)
        .mean;
  }
};

// d log(1 + exp(x w)) / dw at w = 1 where the loss is `loss`.
double slope(double loss) { return -std::expm1(-loss) * std::log(std::expm1(loss)); }

}  // namespace

TEST_CASE("accumulation: micro-batches count by their tokens, in the loss and in the gradient") {
  Counts counts;
  counts.add({4});
  counts.add({2, 2, 2});
  CHECK(counts.accumulate() == doctest::Approx(2.5).epsilon(1e-14));  // not 3, the mean of 4 and 2
  CHECK(counts.w.gradient().item() == doctest::Approx((slope(4) + 3 * slope(2)) / 4).epsilon(1e-14));
}

TEST_CASE("accumulation: the joint batch has the same loss and gradient") {
  Counts parts, joint;
  parts.add({1, 2}, 3);
  parts.add({5});
  parts.add({0.5, 3, 4});
  joint.add({1, 2, 5, 0.5, 3, 4}, 1);
  CHECK(parts.accumulate() == doctest::Approx(joint.accumulate()).epsilon(1e-14));
  CHECK(parts.w.gradient().item() == doctest::Approx(joint.w.gradient().item()).epsilon(1e-14));
}

TEST_CASE("accumulation: a micro-batch without targets changes nothing, and none at all give 0") {
  Counts counts;
  counts.add({}, 2);
  CHECK(counts.accumulate() == 0.0);
  CHECK(counts.w.gradient().item() == 0.0);
  counts.add({4});
  CHECK(counts.accumulate() == doctest::Approx(4.0).epsilon(1e-14));
  CHECK(counts.w.gradient().item() == doctest::Approx(slope(4)).epsilon(1e-14));
}

TEST_CASE("accumulation: the scale multiplies the gradients and not the loss") {
  Counts counts;
  counts.add({4});
  CHECK(counts.accumulate({.scale = 1024.0}) == doctest::Approx(4.0).epsilon(1e-14));
  CHECK(counts.w.gradient().item() == doctest::Approx(1024.0 * slope(4)).epsilon(1e-14));
}

TEST_CASE("accumulation: smoothing is the loss's") {
  Counts counts;
  counts.add({4});
  // (1 - s / 2) 4 + s / 2 (the loss of the other class, 4 - x)
  const double other = 4.0 - std::log(std::expm1(4.0));
  CHECK(counts.accumulate({.label_smoothing = 0.2}) == doctest::Approx(0.9 * 4.0 + 0.1 * other).epsilon(1e-14));
}

TEST_CASE("accumulation: a loss that isn't finite stops before its backward") {
  Counts counts;
  counts.add({2});
  counts.add({3});
  counts.x[1] = std::nan("");
  counts.add({2});
  CHECK(std::isnan(counts.accumulate()));
  CHECK(counts.w.gradient().item() == doctest::Approx(slope(2) / 3).epsilon(1e-14));  // of the first alone
}
