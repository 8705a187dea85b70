#include <algorithm>
#include <cmath>
#include <limits>

#include <jnorm/core/parallel.hpp>

#include "autograd/norm_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

Tensor mask(const Shape& shape, std::vector<std::int32_t> flags) { return indices(shape, flags); }

// One channel: the values stand below each other.
Tensor below(const std::vector<double>& values, DType dtype = DType::float64) {
  return tensor({static_cast<Index>(values.size()), 1}, values, dtype);
}
Var column(Tape& tape, const std::vector<double>& values, DType dtype = DType::float64) {
  return tape.variable(below(values, dtype));
}

bool all_zero(const Tensor& x) {
  const std::vector<double> values = x.values();
  return std::all_of(values.begin(), values.end(), [](double value) { return value == 0.0; });
}

}  // namespace

TEST_CASE("batch_norm: channels that are hard to normalize come out right") {
  check_statistics([](const std::vector<double>& values) {
    Tape tape;
    return batch_norm(column(tape, values, DType::float32)).y.value();
  });
  check_statistics([](const std::vector<double>& values) {  // on a trailing axis
    Tape tape;
    const Var x = tape.variable(tensor({1, 1, static_cast<Index>(values.size())}, values, DType::float32));
    return batch_norm(x, {}, {}, {.channel_axis = 1}).y.value();
  });
}

TEST_CASE("batch_norm: one element that differs by one in 10240 gives the variance (N-1)/N^2") {
  std::vector<double> values(10240, 256.0);
  values.back() = 255.0;
  Tape tape;
  const NormalizedBatch batch = batch_norm(column(tape, values, DType::float32));
  CHECK(batch.variance.item() == doctest::Approx(9.7646713e-5).epsilon(1e-7));
  CHECK(batch.count == 10240);
}

TEST_CASE("batch_norm: value, gradients and statistics of five values [BN.1] [BN.2] [BN.3]") {
  Tape tape;
  const Var xs[] = {column(tape, {1, 2, 3, 4, 5}), tape.variable(ones({1}, DType::float64)),
                    tape.variable(zeros({1}, DType::float64))};
  const NormalizedBatch batch = batch_norm(xs[0], xs[1], xs[2], {.eps = 0.0});
  const Tensor dy = below({1, 0, 0, 0, 0});
  const std::vector<Tensor> gradients = tape.gradients(batch.y, xs, dy);
  const double root = std::sqrt(2.0), unit = 1.0 / std::sqrt(200.0);
  CHECK(batch.y.value() == close({-root, -root / 2, 0, root / 2, root}, 1e-15));
  CHECK(batch.mean == close({3}, 0.0));
  CHECK(batch.variance == close({2}, 0.0));
  CHECK(batch.count == 5);
  CHECK(gradients[0] == close({4 * unit, -4 * unit, -2 * unit, 0, 2 * unit}, 1e-15));
  CHECK(gradients[1] == close({-root}, 1e-15));
  CHECK(gradients[2] == close({1}, 1e-15));
}

TEST_CASE("batch_norm: padding that a mask leaves out counts nowhere") {
  const Tensor valid = mask({10}, {1, 1, 1, 1, 1, 0, 0, 0, 0, 0});
  for (const double padding : {0.0, 1e30, std::nan("")}) {
    CAPTURE(padding);
    Tape tape;
    const Var xs[] = {column(tape, {1, 2, 3, 4, 5, padding, padding, padding, padding, padding}),
                      tape.variable(ones({1}, DType::float64)), tape.variable(full({1}, 7.0, DType::float64))};
    const NormalizedBatch batch = batch_norm(xs[0], xs[1], xs[2], {.eps = 0.0, .mask = valid});
    const Tensor dy = tensor({10, 1}, std::vector<double>{1, 0, 0, 0, 0, 9, padding, 9, 9, 9}, DType::float64);
    const std::vector<Tensor> gradients = tape.gradients(batch.y, xs, dy);
    const double root = std::sqrt(2.0), unit = 1.0 / std::sqrt(200.0);
    CHECK(batch.mean == close({3}, 0.0));
    CHECK(batch.variance == close({2}, 0.0));
    CHECK(batch.count == 5);
    CHECK(batch.y.value() == close({7 - root, 7 - root / 2, 7, 7 + root / 2, 7 + root, 0, 0, 0, 0, 0}, 1e-15));
    CHECK(gradients[0] == close({4 * unit, -4 * unit, -2 * unit, 0, 2 * unit, 0, 0, 0, 0, 0}, 1e-15));
    CHECK(gradients[1] == close({-root}, 1e-15));
    CHECK(gradients[2] == close({1}, 1e-15));
  }
}

TEST_CASE("batch_norm: padding may be NaN at second order too") {
  const auto second_order = [](double padding) {
    Tape tape;
    const Var x = column(tape, {1, 2, 4, padding});
    const Var y = batch_norm(x, {}, {}, {.eps = 0.25, .mask = mask({4}, {1, 1, 1, 0})}).y;
    const Var dx = tape.recorded_gradients(y, {&x, 1}, tape.constant(below({1, 0, -2, 5})))[0];
    return tape.gradients(dx, {&x, 1}, below({3, 1, 0, 7}))[0].values();
  };
  const std::vector<double> gradient = second_order(0.0);
  CHECK(gradient == second_order(std::nan("")));
  CHECK(gradient[0] != 0.0);
  CHECK(gradient[3] == 0.0);
}

TEST_CASE("batch_norm: zeros without a mask count") {
  Tape tape;
  const NormalizedBatch batch = batch_norm(column(tape, {1, 2, 3, 4, 5, 0, 0, 0, 0, 0}));
  CHECK(batch.mean == close({1.5}, 0.0));
  CHECK(batch.variance == close({3.25}, 0.0));
}

TEST_CASE("batch_norm: a mask of single positions is that of [N, C, T] without C") {
  // Channel 0 holds 1 3 | 5 99, channel 1 holds 10 20 | 30 99; the last position is padding.
  Tape tape;
  const Var x = tape.variable(tensor({2, 2, 2}, std::vector<double>{1, 3, 10, 20, 5, 99, 30, 99}, DType::float64));
  const NormalizedBatch batch = batch_norm(x, {}, {}, {.channel_axis = 1, .mask = mask({2, 2}, {1, 1, 1, 0})});
  CHECK(batch.mean == close({3, 20}, 1e-15));
  CHECK(batch.variance == close({8.0 / 3.0, 200.0 / 3.0}, 1e-15));
  CHECK(batch.y.value().at({1, 0, 1}) == 0.0);
  CHECK(batch.y.value().at({1, 1, 1}) == 0.0);
}

TEST_CASE("batch_norm: a single value a channel is refused") {
  Tape tape;
  CHECK_THROWS_WITH_AS(batch_norm(tape.variable(zeros({1, 1}))),
                       doctest::Contains("batch_norm: training needs at least two values a channel, but x [1, 1] has "
                                         "one, which has no variance; take a larger batch, or batch_norm_evaluation"),
                       Error);
  CHECK_THROWS_WITH_AS(batch_norm(tape.variable(ones({3, 2})), {}, {}, {.mask = mask({3}, {0, 1, 0})}),
                       doctest::Contains("x [3, 2] has one that the mask counts"), Error);
}

TEST_CASE("batch_norm: an empty batch, or a mask that counts nothing, has no output and no gradient, never NaN") {
  for (const bool empty : {false, true}) {
    Tape tape;
    const Index rows = empty ? 0 : 3;
    const Var xs[] = {tape.variable(random({rows, 2}, 1)), tape.variable(random({2}, 2)),
                      tape.variable(random({2}, 3))};
    const Tensor nothing = mask({rows}, std::vector<std::int32_t>(static_cast<std::size_t>(rows), 0));
    const NormalizedBatch batch = batch_norm(xs[0], xs[1], xs[2], {.eps = 0.0, .mask = nothing});
    CHECK(batch.y.shape() == Shape{rows, 2});
    CHECK(all_zero(batch.y.value()));
    CHECK(batch.count == 0);
    CHECK(all_zero(batch.mean));
    CHECK(all_zero(batch.variance));
    for (const Tensor& gradient : tape.gradients(batch.y, xs, random({rows, 2}, 4))) CHECK(all_zero(gradient));
    const Var dy = tape.constant(random({rows, 2}, 4));
    for (const Var& gradient : tape.recorded_gradients(batch.y, xs, dy)) CHECK(all_zero(gradient.value()));
  }
}

TEST_CASE("batch_norm: channels last and channels first are the same norm") {
  constexpr int swapped[] = {0, 2, 1};
  const Tensor value = random({4, 5, 3}, 1), dy = random({4, 5, 3}, 2);
  Tape tape;
  const Var gamma = tape.variable(random({3}, 3)), beta = tape.variable(random({3}, 4));
  const Var last[] = {tape.variable(value), gamma, beta};
  const Var first[] = {tape.variable(permute(value, swapped)), gamma, beta};
  const Var y = batch_norm(last[0], gamma, beta).y;
  const Var other = batch_norm(first[0], gamma, beta, {.channel_axis = 1}).y;
  const auto near = [](const Tensor& a, const Tensor& b) { return norm(subtract(a, b)) < 1e-13; };
  CHECK(near(y.value(), permute(other.value(), swapped)));
  const std::vector<Tensor> a = tape.gradients(y, last, dy);
  const std::vector<Tensor> b = tape.gradients(other, first, permute(dy, swapped));
  CHECK(near(a[0], permute(b[0], swapped)));
  CHECK(near(a[1], b[1]));
  CHECK(near(a[2], b[2]));
}

TEST_CASE("batch_norm: its first three derivatives are right") {
  check_three_derivatives([](const Var& t) {
    const Var x = reshape(t, {1, 1}) * below({1, 0});  // t above 0
    return sum(batch_norm(x, {}, {}, {.eps = 0.25}).y * below({1, 2}));
  });
}

TEST_CASE("batch_norm: its recorded gradient is differentiated, with and without parameters, mask and channels last") {
  check_recorded_gradients([](const Var& x, const Var& gamma, const Var& beta) { return batch_norm(x, gamma, beta).y; },
                           {4, 2}, {2});
  check_recorded_gradients(
      [](const Var& x, const Var& gamma, const Var& beta) {
        return batch_norm(x, gamma, beta, {.channel_axis = 1, .mask = mask({2, 3}, {1, 1, 0, 1, 0, 1})}).y;
      },
      {2, 2, 3}, {2});
}

TEST_CASE("batch_norm: float64 values whose squares float64 doesn't hold are normalized") {
  Tape tape;
  CHECK(batch_norm(column(tape, {1e200, 2e200, 3e200, 4e200})).y.value() ==
        close({-1.341641, -0.447214, 0.447214, 1.341641}));
}

TEST_CASE("batch_norm: bfloat16 values of 5 or -5, +- 0.1, come out with deviation 1") {
  for (const double centre : {5.0, -5.0}) {
    Tape tape;
    const Tensor values = affine(random({1000, 1}, 1), 0.1, centre).to(DType::bfloat16);
    const NormalizedBatch batch = batch_norm(tape.variable(values));
    double squares = 0.0;
    for (const double element : batch.y.value().values()) squares += element * element;
    // eps is 0.001 of the variance, and bfloat16 rounds y to 8 bits.
    CHECK(std::sqrt(squares / 1000.0) == doctest::Approx(1.0).epsilon(1e-3));
    CHECK(batch.variance.dtype() == DType::float32);
  }
}

TEST_CASE("batch_norm: a NaN stays within its channel") {
  Tape tape;
  const Tensor y = batch_norm(tape.variable(tensor({{1, 1}, {std::nan(""), 3}}))).y.value();
  CHECK(std::isnan(y.at({0, 0})));
  CHECK(y.at({1, 1}) == doctest::Approx(0.999995));
}

TEST_CASE("batch_norm: results do not depend on the number of threads") {
  const int before = thread_count();
  for (const int axis : {-1, 1}) {
    std::vector<std::vector<double>> results;
    for (const int threads : {1, 2, 3}) {
      set_thread_count(threads);
      Tape tape;
      const Var xs[] = {tape.variable(random({500, 4, 64}, 1)), tape.variable(random({axis == 1 ? 4 : 64}, 2))};
      const Var y = batch_norm(xs[0], xs[1], {}, {.channel_axis = axis}).y;
      std::vector<double> all = y.value().values();
      for (const Tensor& gradient : tape.gradients(y, xs, random({500, 4, 64}, 3))) {
        const std::vector<double> values = gradient.values();
        all.insert(all.end(), values.begin(), values.end());
      }
      results.push_back(std::move(all));
    }
    CHECK(results[0] == results[1]);
    CHECK(results[0] == results[2]);
  }
  set_thread_count(before);
}

TEST_CASE("norms over channels: a value that is normalized twice gets both gradients") {
  Tape tape;
  const Var x = tape.variable(random({4, 6}, 1));
  const auto gradient = [&](const Var& y) { return tape.gradients(y, {&x, 1}, random({4, 6}, 2))[0]; };
  const auto check_twice = [&](const auto& norm_of) {
    const Tensor once = gradient(norm_of(x));
    CHECK(norm(subtract(gradient(norm_of(x) + norm_of(x)), affine(once, 2.0, 0.0))) < 1e-13);
  };
  check_twice([](const Var& v) { return batch_norm(v).y; });
  check_twice([](const Var& v) { return group_norm(v, 2); });
  check_twice([](const Var& v) { return batch_norm_evaluation(v, zeros({6}), full({6}, 4.0)); });
  check_twice([](const Var& v) { return scale_norm(v); });
}

TEST_CASE("batch_norm: the cotangent is not written") {
  check_cotangent_untouched([](const Var& x) { return batch_norm(x).y; }, {4, 3});
}

TEST_CASE("batch_norm: bad arguments are refused") {
  Tape tape;
  const Var x = tape.variable(ones({4, 6}));
  const auto with = [](const BatchNormOptions& options) { return options; };
  CHECK_THROWS_WITH_AS(batch_norm(x, {}, {}, with({.eps = -1.0})),
                       doctest::Contains("batch_norm: eps must not be negative, but is -1"), Error);
  CHECK_THROWS_AS(batch_norm(x, {}, {}, with({.eps = std::numeric_limits<double>::quiet_NaN()})), Error);
  CHECK_THROWS_WITH_AS(batch_norm(x, tape.variable(ones({5}))),
                       doctest::Contains("batch_norm: x [4, 6] has 6 channels on axis -1, but gamma has 5"), Error);
  CHECK_THROWS_WITH_AS(batch_norm(x, {}, tape.variable(ones({2, 3}))),
                       doctest::Contains("batch_norm: x [4, 6] has 6 channels on axis -1, but beta has [2, 3]"), Error);
  CHECK_THROWS_WITH_AS(batch_norm(x, {}, {}, with({.channel_axis = 2})),
                       doctest::Contains("batch_norm: channel axis 2 is out of range for shape [4, 6]"), Error);
  CHECK_THROWS_WITH_AS(batch_norm(x, {}, {}, with({.mask = ones({4})})),
                       doctest::Contains("batch_norm: the mask must be int32, got float32"), Error);
  CHECK_THROWS_WITH_AS(batch_norm(x, {}, {}, with({.mask = mask({6}, {1, 1, 1, 1, 1, 1})})),
                       doctest::Contains("x is [4, 6], so the mask must be [4] (without the channel axis), got [6]"),
                       Error);
  CHECK_THROWS_WITH_AS(batch_norm(x, {}, {}, with({.mask = mask({4}, {1, 1, 2, 1})})),
                       doctest::Contains("batch_norm: the mask must be 0 or 1, but is 2 at position 2"), Error);
  CHECK_THROWS_AS(batch_norm(tape.variable(ones({}))), Error);
}

TEST_CASE("batch_norm_evaluation: the derivative is gamma / sqrt(running_variance + eps), every time") {
  const auto dx = [](double gamma, double variance) {
    Tape tape;
    const Var x = tape.variable(random({3, 2}, 1));
    const Var y =
        batch_norm_evaluation(x, zeros({2}), full({2}, variance), tape.variable(full({2}, gamma, DType::float64)));
    const Tensor first = tape.gradients(sum(y), {&x, 1})[0];
    CHECK(first.values() == tape.gradients(sum(y), {&x, 1})[0].values());
    return first;
  };
  CHECK(dx(1.0, 1.0) == close({0.999995, 0.999995, 0.999995, 0.999995, 0.999995, 0.999995}, 1e-9));
  CHECK(dx(2.0, 4.0) == close({0.99999875, 0.99999875, 0.99999875, 0.99999875, 0.99999875, 0.99999875}, 1e-9));
}

TEST_CASE("batch_norm_evaluation: values use the running statistics") {
  Tape tape;
  const Var x = tape.variable(tensor({{5, 1}, {1, 0}}, DType::float64));
  const Var y =
      batch_norm_evaluation(x, tensor({3, 1}), tensor({4, 0.25}), tape.variable(tensor({10, 1}, DType::float64)),
                            tape.variable(tensor({0, 7}, DType::float64)), {.eps = 0.0});
  CHECK(y.value() == close({10, 7, -10, 5}, 1e-15));
}

TEST_CASE("batch_norm_evaluation: an empty batch gives an empty value") {
  Tape tape;
  const Var x = tape.variable(zeros({0, 64, 112, 112}));
  const Var y = batch_norm_evaluation(x, zeros({64}), ones({64}), {}, {}, {.channel_axis = 1});
  CHECK(y.shape() == Shape{0, 64, 112, 112});
  CHECK(tape.gradients(y, {&x, 1}, zeros({0, 64, 112, 112}))[0].shape() == Shape{0, 64, 112, 112});
}

TEST_CASE("batch_norm_evaluation: a single sample will do") {
  Tape tape;
  CHECK(batch_norm_evaluation(column(tape, {3}), zeros({1}), ones({1}), {}, {}, {.eps = 0.0}).value() == close({3}));
}

TEST_CASE("batch_norm_evaluation: bad arguments are refused") {
  Tape tape;
  const Var x = tape.variable(ones({4, 6}));
  CHECK_THROWS_WITH_AS(
      batch_norm_evaluation(tape.variable(zeros({0, 0})), zeros({1}), ones({1})),
      doctest::Contains("batch_norm_evaluation: x [0, 0] has 0 channels on axis -1, but running_mean has 1"), Error);
  CHECK_THROWS_WITH_AS(batch_norm_evaluation(x, zeros({6}), ones({5})),
                       doctest::Contains("has 6 channels on axis -1, but running_variance has 5"), Error);
  CHECK_THROWS_WITH_AS(batch_norm_evaluation(x, {}, ones({6})), doctest::Contains("running_mean is undefined"), Error);
  CHECK_THROWS_WITH_AS(batch_norm_evaluation(x, zeros({6}), tensor({1, 1, 1, -2, 1, 1})),
                       doctest::Contains("running_variance must not be negative, but is -2 in channel 3"), Error);
  CHECK_THROWS_WITH_AS(batch_norm_evaluation(x, zeros({6}), ones({6}), {}, {}, {.eps = -1.0}),
                       doctest::Contains("batch_norm_evaluation: eps must not be negative, but is -1"), Error);
  CHECK_THROWS_WITH_AS(batch_norm_evaluation(x, zeros({6}, DType::int32), ones({6})),
                       doctest::Contains("running_mean must be float32 or float64, got int32"), Error);
}
