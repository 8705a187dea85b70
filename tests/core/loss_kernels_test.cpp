#include "core/kernel_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

constexpr std::int32_t kIgnored = kIgnoreIndex;

struct Loss {
  Tensor loss, lse;
};
Loss cross_entropy(const Tensor& logits, const Tensor& targets) {
  Loss result{garbage({}, logits.dtype()), garbage({logits.rows()}, logits.dtype())};
  cpu().cross_entropy(logits, targets, result.loss, result.lse);
  return result;
}
// dloss has one element for each cotangent.
Tensor cross_entropy_dx(const Tensor& dloss, const Tensor& logits, const Tensor& targets) {
  Tensor dlogits = garbage(logits.shape().with_leading(dloss.size()), logits.dtype());
  cpu().cross_entropy_dx(dloss, logits, targets, cross_entropy(logits, targets).lse, {dlogits});
  return dlogits;
}
Tensor targets_of(const std::vector<std::int32_t>& targets) {
  return indices({static_cast<Index>(targets.size())}, targets);
}

struct Reference {
  double loss = 0;
  std::vector<double> dlogits;

  Reference(const Tensor& logits, const std::vector<std::int32_t>& targets) {
    const auto length = static_cast<std::size_t>(logits.row_length());
    const std::vector<double> xs = logits.values();
    const double counted =
        static_cast<double>(targets.size()) - static_cast<double>(std::count(targets.begin(), targets.end(), kIgnored));
    for (std::size_t r = 0; r < targets.size(); ++r) {
      long double total = 0;
      for (std::size_t j = 0; j < length; ++j) total += std::exp(static_cast<long double>(xs[r * length + j]));
      const bool counts = targets[r] != kIgnored;
      const auto target = static_cast<std::size_t>(counts ? targets[r] : 0);
      if (counts) loss += static_cast<double>(std::log(total) - xs[r * length + target]) / counted;
      for (std::size_t j = 0; j < length; ++j) {
        const long double p = std::exp(static_cast<long double>(xs[r * length + j])) / total;
        dlogits.push_back(counts ? static_cast<double>(p - (j == target ? 1 : 0)) / counted : 0.0);
      }
    }
  }
};

}  // namespace

TEST_CASE("cross_entropy: loss and gradient for every number of classes [CE.1] [CE.2]") {
  for (const DType dtype : kWideTypes) {
    for (const Index classes : kRowLengths) {
      CAPTURE(dtype);
      CAPTURE(classes);
      const Tensor logits = random({4, classes}, dtype, 1);
      const std::vector<std::int32_t> targets{0, static_cast<std::int32_t>(classes - 1), kIgnored,
                                              static_cast<std::int32_t>(classes / 2)};
      const Reference right(logits, targets);
      CHECK(distance(cross_entropy(logits, targets_of(targets)).loss, {right.loss}) < tolerance(dtype));
      CHECK(distance(cross_entropy_dx(ones({}, dtype), logits, targets_of(targets)), right.dlogits) < tolerance(dtype));
    }
  }
}

TEST_CASE("cross_entropy: where exp underflows, the loss doesn't") {
  CHECK(cross_entropy(tensor({{0, -200}}), targets_of({1})).loss.item() == 200.0);
  CHECK(relative_error(cross_entropy(tensor({{-200, -200, -200, -200}}), targets_of({2})).loss.item(), 1.386294) <
        1e-6);
}

TEST_CASE("cross_entropy: large logits keep the loss and the gradient") {
  for (const DType dtype : kWideTypes) {
    const Tensor near = tensor({{0, 1, 2, 3}}, dtype), far = tensor({{10000, 10001, 10002, 10003}}, dtype);
    const Tensor target = targets_of({1}), one = ones({}, dtype);
    CHECK(distance(cross_entropy(far, target).loss, cross_entropy(near, target).loss) < tolerance(dtype));
    CHECK(distance(cross_entropy_dx(one, far, target), cross_entropy_dx(one, near, target)) < tolerance(dtype));
  }
}

TEST_CASE("cross_entropy: lse is logsumexp of every row, the ignored ones too") {
  CHECK(distance(cross_entropy(tensor({{0, 0}, {-5, -5}}), targets_of({0, kIgnored})).lse,
                 {0.693147181, -4.306852819}) < 1e-6);
}

TEST_CASE("cross_entropy: ignored rows do not count, whatever they hold") {
  const Tensor one = tensor({{2, 0}}), two = tensor({{2, 0}, {kNaN, kInfinity}});
  CHECK(identical(cross_entropy(two, targets_of({0, kIgnored})).loss, cross_entropy(one, targets_of({0})).loss));
  const std::vector<double> alone = cross_entropy_dx(ones({}), one, targets_of({0})).values();
  CHECK(distance(cross_entropy_dx(ones({}), two, targets_of({0, kIgnored})), {alone[0], alone[1], 0, 0}) == 0.0);
}

TEST_CASE("cross_entropy: without any target the loss and the gradient are 0") {
  const Tensor logits = tensor({{2, 0}, {1, 5}}), targets = targets_of({kIgnored, kIgnored});
  CHECK(cross_entropy(logits, targets).loss.item() == 0.0);
  CHECK(distance(cross_entropy_dx(ones({}), logits, targets), {0, 0, 0, 0}) == 0.0);
  CHECK(cross_entropy(zeros({0, 3}), targets_of({})).loss.item() == 0.0);
  CHECK(cross_entropy_dx(ones({}), zeros({0, 3}), targets_of({})).size() == 0);
}

TEST_CASE("cross_entropy: several cotangents at once, added or written") {
  const DType dtype = DType::float64;
  const std::vector<std::int32_t> targets{3, kIgnored, 0};
  const Tensor logits = random({3, 17}, dtype, 1), dloss = tensor({1, -2, 0.5}, dtype);
  const Tensor dlogits = cross_entropy_dx(dloss, logits, targets_of(targets));
  const Reference right(logits, targets);
  std::vector<double> scaled;
  for (const double scale : {1.0, -2.0, 0.5}) {
    for (const double value : right.dlogits) scaled.push_back(scale * value);
  }
  CHECK(distance(dlogits, scaled) < tolerance(dtype));
  const Tensor sum = ones({3, 3, 17}, dtype), lse = cross_entropy(logits, targets_of(targets)).lse;
  cpu().cross_entropy_dx(dloss, logits, targets_of(targets), lse, {sum, true});
  for (double& value : scaled) value += 1.0;
  CHECK(distance(sum, scaled) < tolerance(dtype));
  cpu().cross_entropy_dx(dloss, logits, targets_of(targets), lse, {});  // nobody wants it
}

TEST_CASE("cross_entropy: results do not depend on the number of threads") {
  const Tensor logits = random({3000, 64}, DType::float32, 1);
  std::vector<std::int32_t> targets;
  for (std::int32_t r = 0; r < 3000; ++r) targets.push_back(r % 7 == 0 ? kIgnored : r % 64);
  CHECK(independent_of_threads([&] { return cross_entropy(logits, targets_of(targets)).loss; }));
  CHECK(independent_of_threads([&] { return cross_entropy_dx(ones({}), logits, targets_of(targets)); }));
}
