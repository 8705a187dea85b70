#include "cuda/device_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

constexpr double kEps = 1e-5;

// gamma, beta and the mask may be undefined. dy has K copies of x's elements.
struct Inputs {
  ChannelLayout layout;
  Tensor x, dy, gamma = {}, beta = {}, mask = {};
  double eps = kEps;

  template <class F>
  Inputs each(const F& f) const {
    const auto given = [&](const Tensor& tensor) { return tensor.defined() ? f(tensor) : tensor; };
    return {layout, f(x), f(dy), given(gamma), given(beta), given(mask), eps};
  }
};
struct Results {
  Tensor mean, variance, rstd, y, dx, dgamma, dbeta;
};

Index copies_of(const Inputs& in) { return in.x.size() == 0 ? 1 : in.dy.size() / in.x.size(); }

Results filled(const Inputs& in, double value) {
  const auto output = [&](const Shape& shape, DType dtype) { return full(shape, value, dtype).to(in.x.device()); };
  const auto statistic = [&] { return output({in.layout.statistics()}, DType::float64); };
  const Shape parameter{copies_of(in), in.layout.channels};
  const DType dtype = in.x.dtype();
  return {statistic(),
          statistic(),
          statistic(),
          output(in.x.shape(), dtype),
          output(in.dy.shape(), dtype),
          output(parameter, dtype),
          output(parameter, dtype)};
}

Results run(const Inputs& in, double start = kNaN, bool add = false) {
  Results results = filled(in, start);
  const auto& [mean, variance, rstd, y, dx, dgamma, dbeta] = results;
  const Kernels& kernels = in.x.device().kernels();
  kernels.channel_norm(in.layout, in.x, in.gamma, in.beta, in.mask, in.eps, y, mean, variance, rstd);
  kernels.channel_norm_backward(in.layout, in.dy, in.x, in.gamma, in.mask, mean, rstd, {dx, add}, {dgamma, add},
                                {dbeta, add});
  return results;
}
Results run_on_device(const Inputs& in) { return run(in.each(on_device)); }

// The CPU's, in float64 on the same elements.
Results right_results(const Inputs& in) {
  Inputs wide = in.each([](const Tensor& tensor) { return tensor.to(DType::float64); });
  wide.mask = in.mask;
  return run(wide);
}

Shape shape_of(const ChannelLayout& layout) { return {layout.outer, layout.channels, layout.inner}; }

Inputs random_inputs(const ChannelLayout& layout, DType dtype, Index copies = 1) {
  return {.layout = layout,
          .x = random(shape_of(layout), dtype, 1),
          .dy = random(shape_of(layout).with_leading(copies), dtype, 2),
          .gamma = random({layout.channels}, dtype, 3),
          .beta = random({layout.channels}, dtype, 4)};
}

// 1 at three positions of four.
Tensor some_positions(const ChannelLayout& layout) {
  std::vector<std::int32_t> mask;
  for (Index i = 0; i < layout.outer * layout.inner; ++i) mask.push_back(i % 4 == 2 ? 0 : 1);
  return indices({layout.outer, layout.inner}, mask);
}

// What sums over rows lose, and the one rounding of a narrow result. Statistics are float64's, which shows where the
// elements are too: over longer rows than tolerance() speaks of, the roundings add up as the steps of a random walk.
double rounding_of_sums(const Inputs& in) {
  const DType dtype = in.x.dtype();
  const double lost = std::max(a_few_roundings(dtype), tolerance(statistics_dtype(dtype)));
  const Index elements = in.x.size() / std::max<Index>(1, in.layout.statistics());
  return dtype == DType::float64 ? lost * std::max(1.0, std::sqrt(static_cast<double>(elements) / 128)) : lost;
}

// Deviations from a mean that is so many times larger lose as many of float64's last digits.
void check_against_cpu(const Inputs& in, double mean_by_deviation = 1.0) {
  const double exact = 1e-12 * mean_by_deviation;
  const auto terms = static_cast<double>(in.layout.outer * in.layout.inner);
  const double sums = std::max(rounding_of_sums(in), tolerance(statistics_dtype(in.x.dtype())) * terms / 128);
  const DType dtype = in.x.dtype();
  const Results got = run_on_device(in), right = right_results(in);
  CAPTURE(dtype);
  CAPTURE(in.layout.outer);
  CAPTURE(in.layout.channels);
  CAPTURE(in.layout.inner);
  CAPTURE(in.layout.groups);
  const std::vector<double> rstds = right.rstd.values();
  const double largest_rstd = *std::max_element(rstds.begin(), rstds.end());  // multiplies the errors of what dx sums
  CHECK(distance(got.mean, right.mean) < exact);
  CHECK(distance(got.variance, right.variance) < exact);
  CHECK(distance(got.rstd, right.rstd) < exact * std::max(1.0, largest_rstd));
  CHECK(distance(got.y, right.y) < rounding_of_sums(in));
  CHECK(distance(got.dx, right.dx) < sums * std::max(1.0, largest_rstd));
  CHECK(distance(got.dgamma, right.dgamma) < sums);
  CHECK(distance(got.dbeta, right.dbeta) < sums);
}

// outer, channels, inner, groups: BatchNorm and GroupNorm, channels side by side and apart, whole packs and odd ones,
// groups of three, and lines of more than one segment.
const std::vector<ChannelLayout> kLayouts{
    {12, 5, 1},      {12, 8, 1},    {70, 16, 1},   {3, 1032, 1},    {5, 3, 7},      {5, 4, 8},     {2, 3, 1025},
    {2, 2, 8200},    {4, 6, 1, 2},  {4, 16, 1, 2}, {4, 9, 5, 3},    {4, 6, 8, 3},   {3, 4, 16, 4}, {3, 4, 16, 1},
    {2, 2, 4100, 2}, {7, 64, 1, 2}, {3, 4, 12, 2}, {2, 4, 1028, 2}, {1, 4, 8200, 2}};

// Groups that a few lanes hold, a warp, and a block, and that don't fit: of channels with one element and with several,
// of which a pack has one, two, or more than two.
const std::vector<ChannelLayout> kGroups{{3, 2, 3, 2},    {5, 8, 1, 2},    {70, 48, 1, 3},  {3, 512, 1, 2},
                                         {2, 1024, 1, 2}, {9, 1040, 1, 1}, {3, 2050, 1, 2}, {2, 6, 100, 3},
                                         {2, 4, 196, 2},  {2, 40, 4, 2},   {2, 80, 8, 2},   {3, 64, 1, 64},
                                         {2, 3, 1300, 3}, {1, 2, 4097, 1}, {1, 3, 5464, 1}, {1, 1, 32776, 1},
                                         {2, 3, 5464, 1}, {1, 2, 8204, 1}, {1, 1, 58000, 1}};

}  // namespace

TEST_CASE("cuda channel_norm: all layouts and dtypes, forward and backward") {
  for (const ChannelLayout& layout : kLayouts) {
    for (const DType dtype : kFloatingTypes) check_against_cpu(random_inputs(layout, dtype));
  }
}

TEST_CASE("cuda channel_norm: groups of every size") {
  for (const ChannelLayout& layout : kGroups) {
    for (const DType dtype : kFloatingTypes) check_against_cpu(random_inputs(layout, dtype));
  }
}

TEST_CASE("cuda channel_norm: more groups than a grid's second axis holds") {
  if (!on_gpu()) return;
  check_against_cpu(random_inputs({70000, 8, 4, 2}, DType::float32));
  check_against_cpu(random_inputs({131073, 32, 1, 4}, DType::bfloat16));
}

TEST_CASE("cuda channel_norm: a mask leaves positions out of everything, even NaN") {
  for (const ChannelLayout& layout : kLayouts) {
    if (layout.groups > 0) continue;
    Inputs in = random_inputs(layout, DType::float32);
    in.mask = some_positions(layout);
    std::vector<double> values = in.x.values();
    if (layout.inner > 2) values[2] = kNaN;  // the third position
    in.x = tensor(shape_of(layout), values, DType::float32);
    check_against_cpu(in);
  }
}

TEST_CASE("cuda channel_norm: where nothing is counted, everything is 0") {
  Inputs in = random_inputs({6, 4, 1}, DType::float32);
  in.mask = indices({6, 1}, std::vector<std::int32_t>(6, 0));
  const Results got = run_on_device(in);
  for (const Tensor& all : {got.mean, got.variance, got.rstd, got.y, got.dx, got.dgamma, got.dbeta}) {
    CHECK(distance(all, std::vector<double>(static_cast<std::size_t>(all.size()))) == 0.0);
  }
}

TEST_CASE("cuda channel_norm: several cotangents at once") {
  for (const ChannelLayout& layout : kLayouts) check_against_cpu(random_inputs(layout, DType::float32, 3));
}

TEST_CASE("cuda channel_norm: absent parameters") {
  for (const ChannelLayout& layout : kLayouts) {
    Inputs in = random_inputs(layout, DType::float32);
    in.gamma = in.beta = Tensor();
    check_against_cpu(in);
  }
}

TEST_CASE("cuda channel_norm: results are added where the destination says so") {
  for (const ChannelLayout& layout : kLayouts) {
    const Inputs in = random_inputs(layout, DType::float64).each(on_device);
    const Results right = run(in), added = run(in, 1.0, true);
    const auto plus_one = [](const Tensor& tensor) {
      std::vector<double> values = tensor.values();
      for (double& value : values) value += 1.0;
      return values;
    };
    CHECK(distance(added.dx, plus_one(right.dx)) < a_few_roundings(DType::float64));
    CHECK(distance(added.dgamma, plus_one(right.dgamma)) < a_few_roundings(DType::float64));
    CHECK(distance(added.dbeta, plus_one(right.dbeta)) < a_few_roundings(DType::float64));
  }
}

TEST_CASE("cuda channel_norm: statistics that are given are applied, and y is added where the destination says so") {
  for (const ChannelLayout& layout : kLayouts) {
    const Inputs in = random_inputs(layout, DType::float64).each(on_device);
    const Results right = run(in), given = filled(in, kNaN), added = filled(in, 1.0);
    const auto apply = [&](const Destination& y) {
      device_kernels().channel_norm_apply(layout, in.x, in.gamma, in.beta, {}, right.mean, right.rstd, y);
    };
    apply({given.y});
    apply({added.y, true});
    std::vector<double> plus_one = right.y.values();
    for (double& value : plus_one) value += 1.0;
    CHECK(distance(given.y, right.y) < a_few_roundings(DType::float64));
    CHECK(distance(added.y, plus_one) < a_few_roundings(DType::float64));
  }
}

TEST_CASE("cuda channel_norm: a variance that nobody wants is left out") {
  for (const ChannelLayout& layout : kLayouts) {
    const Inputs in = random_inputs(layout, DType::float32).each(on_device);
    const Results right = run(in), got = filled(in, kNaN);
    device_kernels().channel_norm(layout, in.x, in.gamma, in.beta, {}, kEps, got.y, got.mean, {}, got.rstd);
    CHECK(distance(got.y, right.y) == 0.0);
    CHECK(distance(got.mean, right.mean) == 0.0);
    CHECK(distance(got.rstd, right.rstd) == 0.0);
  }
}

TEST_CASE("cuda channel_norm: a gradient that nobody wants is left out") {
  for (const ChannelLayout& layout : kLayouts) {
    const Inputs in = random_inputs(layout, DType::float32).each(on_device);
    const Results right = run(in), one = filled(in, kNaN);
    const auto backward = [&](const Destination& dx, const Destination& dgamma, const Destination& dbeta) {
      device_kernels().channel_norm_backward(layout, in.dy, in.x, in.gamma, {}, right.mean, right.rstd, dx, dgamma,
                                             dbeta);
    };
    backward({}, {}, {});
    backward({one.dx}, {}, {});
    backward({}, {one.dgamma}, {});
    backward({}, {}, {one.dbeta});
    CHECK(distance(one.dx, right.dx) == 0.0);
    CHECK(distance(one.dgamma, right.dgamma) == 0.0);
    CHECK(distance(one.dbeta, right.dbeta) == 0.0);
  }
}

TEST_CASE("cuda channel_norm: nothing in, nothing out, and zero parameter gradients") {
  const Results none = run_on_device(random_inputs({0, 4, 3}, DType::float32));
  CHECK(none.y.size() == 0);
  CHECK(distance(none.mean, {0, 0, 0, 0}) == 0.0);
  CHECK(distance(none.rstd, {0, 0, 0, 0}) == 0.0);
  CHECK(distance(none.dgamma, {0, 0, 0, 0}) == 0.0);
  CHECK(distance(none.dbeta, {0, 0, 0, 0}) == 0.0);
}

TEST_CASE("cuda channel_norm: elements far from zero") {
  for (const ChannelLayout& layout : kLayouts) {
    Inputs in = random_inputs(layout, DType::float32);
    std::vector<double> values = in.x.values();
    for (double& value : values) value = 1449 + value / 4;
    in.x = tensor(shape_of(layout), values, DType::float32);
    check_against_cpu(in, 1449 / 0.3);
  }
}

TEST_CASE("cuda channel_norm: bfloat16 channels at 5 with a spread of 0.1") {
  Inputs in = random_inputs({64, 8, 1}, DType::bfloat16);
  std::vector<double> values = in.x.values();
  for (double& value : values) value = 5 + value / 10;
  in.x = tensor({64, 8, 1}, values, DType::bfloat16);
  check_against_cpu(in);
}

TEST_CASE("cuda channel_norm: float32 elements of 1e30 are normalized") {
  for (const ChannelLayout& layout : kLayouts) {
    Inputs in = random_inputs(layout, DType::float32);
    std::vector<double> values = in.x.values();
    for (double& value : values) value *= 1e30;
    in.x = tensor(shape_of(layout), values, DType::float32);
    CHECK(distance(run_on_device(in).y, right_results(in).y) < tolerance(DType::float32));
  }
}

TEST_CASE("cuda channel_norm: NaN stays in its channel") {
  Inputs in = random_inputs({8, 4, 1}, DType::float32);
  std::vector<double> values = in.x.values();
  values[5] = kNaN;  // channel 1
  in.x = tensor({8, 4, 1}, values, DType::float32);
  const std::vector<double> y = run_on_device(in).y.values();
  CHECK(std::isnan(y[1]));
  CHECK(!std::isnan(y[0]));
  CHECK(!std::isnan(y[2]));
}

TEST_CASE("cuda channel_norm: NaN stays in its group") {
  for (const ChannelLayout& layout : {ChannelLayout{3, 8, 1, 2}, {3, 2, 40, 2}, {3, 2, 4100, 2}, {3, 2, 16400, 2}}) {
    Inputs in = random_inputs(layout, DType::float32);
    std::vector<double> values = in.x.values();
    const std::size_t length = values.size() / 6;  // of a group
    values[2 * length] = kNaN;
    in.x = tensor(shape_of(layout), values, DType::float32);
    const Results got = run_on_device(in);
    for (const std::vector<double>& of_elements : {got.y.values(), got.dx.values()}) {
      CHECK(!std::isnan(of_elements[2 * length - 1]));
      CHECK(std::isnan(of_elements[2 * length]));
      CHECK(std::isnan(of_elements[3 * length - 1]));
      CHECK(!std::isnan(of_elements[3 * length]));
    }
  }
}

TEST_CASE("cuda channel_norm: a group without variance is 0, and without eps 0/0") {
  for (const ChannelLayout& layout : {ChannelLayout{3, 6, 1, 2}, {3, 2, 40, 2}, {3, 2, 4100, 2}}) {
    Inputs in = random_inputs(layout, DType::float32);
    in.x = full(shape_of(layout), 0.1, DType::float32);
    in.gamma = in.beta = Tensor();
    for (const double element : run_on_device(in).y.values()) CHECK(std::fabs(element) < 1e-10);
    in.eps = 0.0;
    for (const double element : run_on_device(in).y.values()) CHECK(std::isnan(element));
  }
}

TEST_CASE("cuda channel_norm: groups of the largest float32 numbers, of both signs, are normalized") {
  for (const ChannelLayout& layout : {ChannelLayout{2, 4, 1, 2}, {2, 2, 4, 2}, {2, 2, 4100, 2}}) {
    Inputs in = random_inputs(layout, DType::float32);
    std::vector<double> values;
    for (Index i = 0; i < in.x.size(); ++i) values.push_back(i % 2 == 0 ? 3.4e38 : -3.4e38);
    in.x = tensor(shape_of(layout), values, DType::float32);
    in.gamma = in.beta = Tensor();
    const std::vector<double> y = run_on_device(in).y.values();
    CHECK(relative_error(y[0], 1.0) < 1e-6);  // rstd, below 2^-126, has lost some digits
    CHECK(relative_error(y[1], -1.0) < 1e-6);
  }
}

TEST_CASE("cuda channel_norm: the same bits in every schedule") {
  for (const ChannelLayout& layout : kLayouts) {
    const Inputs in = random_inputs(layout, DType::float32);
    const Results first = run_on_device(in);
    for_each_schedule([&] {
      const Results again = run_on_device(in);
      CHECK(distance(again.y, first.y) == 0.0);
      CHECK(distance(again.dx, first.dx) == 0.0);
      CHECK(distance(again.dgamma, first.dgamma) == 0.0);
    });
  }
}
