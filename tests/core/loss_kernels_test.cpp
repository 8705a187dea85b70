#include <jnorm/core/operations.hpp>

#include "core/kernel_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

constexpr std::int32_t kIgnored = kIgnoreIndex;

struct Loss {
  Tensor loss, lse;
};
// What the kernel is called with besides logits and targets.
struct Options {
  CrossEntropySettings settings = {};
  Tensor weights = {};
};
Loss cross_entropy(const Tensor& logits, const Tensor& targets, const Options& options = {}) {
  const Shape shape = options.settings.reduction == Reduction::none ? targets.shape() : Shape{};
  Loss result{garbage(shape, logits.dtype()), garbage({logits.rows()}, logits.dtype())};
  cpu().cross_entropy(options.settings, logits, targets, options.weights, result.loss, result.lse);
  return result;
}
// dloss has one element for each cotangent, or for each of its rows.
Tensor cross_entropy_dx(const Tensor& dloss, const Tensor& logits, const Tensor& targets, const Options& options = {}) {
  const Index copies = options.settings.reduction == Reduction::none ? dloss.dim(0) : dloss.size();
  Tensor dlogits = garbage(logits.shape().with_leading(copies), logits.dtype());
  const Tensor lse = cross_entropy(logits, targets, options).lse;
  cpu().cross_entropy_dx(options.settings, dloss, logits, targets, options.weights, lse, {dlogits});
  return dlogits;
}
Tensor targets_of(const std::vector<std::int32_t>& targets) {
  return indices({static_cast<Index>(targets.size())}, targets);
}

// Row by row in long double: each row's loss and its gradient, then the reduced loss and gradient.
struct Reference {
  std::vector<double> row_loss, row_gradient;
  double loss = 0;
  std::vector<double> dlogits;

  Reference(const Tensor& logits, const std::vector<std::int32_t>& targets, const Options& options = {}) {
    const auto length = static_cast<std::size_t>(logits.row_length());
    const std::vector<double> xs = logits.values();
    const std::vector<double> w =
        options.weights.defined() ? options.weights.values() : std::vector<double>(length, 1.0);
    const double smoothing = options.settings.label_smoothing;
    long double counted = 0;
    for (std::size_t r = 0; r < targets.size(); ++r) {
      const double* const x = xs.data() + r * length;
      const bool counts = targets[r] != options.settings.ignore_index;
      const auto target = static_cast<std::size_t>(counts ? targets[r] : 0);
      long double total = 0, row = 0, all_shares = 0;
      for (std::size_t j = 0; j < length; ++j) total += std::exp(static_cast<long double>(x[j]));
      const auto share = [&](std::size_t j) {  // what the class gives to the loss of this target
        return w[j] * ((j == target ? 1 - smoothing : 0) + smoothing / static_cast<double>(length));
      };
      for (std::size_t j = 0; j < length; ++j) {
        row += share(j) * (std::log(total) - x[j]);
        all_shares += share(j);
      }
      row_loss.push_back(counts ? static_cast<double>(row) : 0.0);
      for (std::size_t j = 0; j < length; ++j) {
        const long double p = std::exp(static_cast<long double>(x[j])) / total;
        row_gradient.push_back(counts ? static_cast<double>(all_shares * p - share(j)) : 0.0);
      }
      if (counts) counted += w[target];
      loss += row_loss.back();
    }
    const double divisor = options.settings.reduction == Reduction::mean ? static_cast<double>(counted) : 1.0;
    loss /= divisor;
    for (const double value : row_gradient) dlogits.push_back(value / divisor);
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
  cpu().cross_entropy_dx({}, dloss, logits, targets_of(targets), {}, lse, {sum, true});
  for (double& value : scaled) value += 1.0;
  CHECK(distance(sum, scaled) < tolerance(dtype));
  cpu().cross_entropy_dx({}, dloss, logits, targets_of(targets), {}, lse, {});  // nobody wants it
}

TEST_CASE("cross_entropy: results do not depend on the number of threads") {
  const Tensor logits = random({3000, 64}, DType::float32, 1);
  std::vector<std::int32_t> targets;
  for (std::int32_t r = 0; r < 3000; ++r) targets.push_back(r % 7 == 0 ? kIgnored : r % 64);
  CHECK(independent_of_threads([&] { return cross_entropy(logits, targets_of(targets)).loss; }));
  CHECK(independent_of_threads([&] { return cross_entropy_dx(ones({}), logits, targets_of(targets)); }));
}

TEST_CASE("cross_entropy: smoothing and class weights, for every number of classes and every reduction [CE.1] [CE.2]") {
  for (const DType dtype : kWideTypes) {
    for (const Index classes : kRowLengths) {
      const Tensor logits = random({4, classes}, dtype, 1), weights = affine(random({classes}, dtype, 2), 0.2, 0.5);
      const auto last = static_cast<std::int32_t>(classes - 1);
      const std::vector<std::int32_t> targets{0, last, -7, last / 2};
      for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
        for (const double smoothing : {0.0, 0.3}) {
          for (const Tensor& chosen : {Tensor(), weights}) {
            CAPTURE(dtype);
            CAPTURE(classes);
            CAPTURE(smoothing);
            const Options options{{-7, smoothing, reduction}, chosen};
            const Reference right(logits, targets, options);
            const Tensor loss = cross_entropy(logits, targets_of(targets), options).loss;
            const bool apart = reduction == Reduction::none;
            CHECK(distance(loss, apart ? right.row_loss : std::vector<double>{right.loss}) < tolerance(dtype));
            const Tensor dloss = ones(loss.shape().with_leading(1), dtype);
            CHECK(distance(cross_entropy_dx(dloss, logits, targets_of(targets), options), right.dlogits) <
                  tolerance(dtype));
          }
        }
      }
    }
  }
}

TEST_CASE("cross_entropy: without reduction each row has its own cotangent") {
  const DType dtype = DType::float64;
  const Tensor logits = random({2, 3}, dtype, 1), dloss = tensor({{1, 2}, {-1, 0}}, dtype);
  const std::vector<std::int32_t> targets{2, 0};
  const Options options{{.reduction = Reduction::none}, {}};
  const std::vector<double> rows = Reference(logits, targets, options).row_gradient;
  std::vector<double> right;
  for (const double scale : {1.0, 2.0, -1.0, 0.0}) {
    const std::size_t row = right.size() % 6;
    for (std::size_t j = 0; j < 3; ++j) right.push_back(scale * rows[row + j]);
  }
  CHECK(distance(cross_entropy_dx(dloss, logits, targets_of(targets), options), right) < tolerance(dtype));
}

TEST_CASE("cross_entropy: a mean over targets of weight 0 is 0, and so is its gradient") {
  const Options options{{.label_smoothing = 0.1}, tensor({0, 1})};
  const Tensor logits = tensor({{1, 2}});
  CHECK(cross_entropy(logits, targets_of({0}), options).loss.item() == 0.0);
  CHECK(distance(cross_entropy_dx(ones({}), logits, targets_of({0}), options), {0, 0}) == 0.0);
}
