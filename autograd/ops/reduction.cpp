// Reductions over axes.
//
//   sum        <-> broadcast
//   max, min   dx = dy share, where share is 1/m at each of the m elements that are the largest, else 0
//   variance   dx = dy 2 (x - mean) / (n - correction)
//   logsumexp  dx = dy e^(x - y), and 0 where y = -inf
//   l2_norm    dx = dy x / y, and 0 where y = 0

#include <cmath>
#include <limits>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/axes.hpp>
#include <jnorm/autograd/ops/record.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// What a reduction of `shape` left, repeated along the axes that went away.
template <class V>
V spread(const V& v, const Shape& shape, std::uint32_t axes) {
  return broadcast_to(reshape(v, with_ones_at(shape, axes)), shape);
}
template <class V, class Back>
V spread_beside(const V& v, const Back& back, std::uint32_t axes) {  // the same of a cotangent
  const Shape shape = back.input(0).shape();
  return broadcast_to(reshape(v, back.shaped(with_ones_at(shape, axes))), back.shaped(shape));
}

struct Sum : Primitive<Sum> {
  static constexpr Description kDescription{.name = "sum", .inputs = "x", .formula = "y = sum of x over axes"};
  std::uint32_t axes;
  explicit Sum(std::uint32_t bits) : axes(bits) {}
  std::optional<double> setting(std::string_view name) const override { return number_if(name == "axes", axes); }

  template <class Back>
  void pull(Back& back) const {
    if (back.wants(0)) back.give(0, spread_beside(back.cotangent(), back, axes));
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(sum_axes(push.tangent(0), axes << push.axis(0)));
  }
};

// y = a function of the elements along the axes, with the gradient Self::slope(x, y), which has x's shape.
template <class Self>
struct Reduction : Primitive<Self> {
  std::uint32_t axes;
  explicit Reduction(std::uint32_t bits) : axes(bits) {}
  std::optional<double> setting(std::string_view name) const override { return number_if(name == "axes", axes); }

  template <class Back>
  void pull(Back& back) const {
    if (!back.wants(0)) return;
    const auto& self = static_cast<const Self&>(*this);
    back.give(0, multiply(spread_beside(back.cotangent(), back, axes), self.slope(back.input(0), back.output())));
  }
  void jvp(Pushforward& push) const override {
    if (!push.has(0)) return;
    const Tensor slope = static_cast<const Self&>(*this).slope(push.input(0), push.output());
    push.give(sum_axes(multiply(push.tangent(0), slope), axes << push.axis(0)));
  }
};

// Each element's share of an extreme value: equal among those that are equal to it.
Tensor tie_shares(const Tensor& x, const Tensor& y, std::uint32_t axes) {
  const Tensor hits = equal(x, spread(y, x.shape(), axes)).to(x.dtype());
  return divide(hits, spread(sum_axes(hits, axes), x.shape(), axes));
}
inline Tensor constant_beside(const Tensor& /*x*/, Tensor value) { return value; }
inline Var constant_beside(const Var& x, Tensor value) { return x.tape().constant(std::move(value)); }

template <class Self>
struct Extremum : Reduction<Self> {
  using Reduction<Self>::Reduction;
  template <class P>
  P slope(const P& x, const P& y) const {
    return constant_beside(x, tie_shares(value_of(x), value_of(y), this->axes));
  }
};
struct Max : Extremum<Max> {
  static constexpr Description kDescription{
      .name = "max", .inputs = "x", .formula = "y = max of x over axes", .saved_inputs = 0b1, .saves_output = true};
  using Extremum::Extremum;
};
struct Min : Extremum<Min> {
  static constexpr Description kDescription{
      .name = "min", .inputs = "x", .formula = "y = min of x over axes", .saved_inputs = 0b1, .saves_output = true};
  using Extremum::Extremum;
};

struct Variance : Reduction<Variance> {
  static constexpr Description kDescription{
      .name = "variance", .inputs = "x", .formula = "y = sum (x - mean)^2 / (n - correction)", .saved_inputs = 0b1};
  double count, divisor;  // n; n - correction, or NaN
  Variance(std::uint32_t bits, Index n, int correction)
      : Reduction(bits),
        count(static_cast<double>(n)),
        divisor(n > correction ? static_cast<double>(n - correction) : kNaN) {}

  template <class P>
  P slope(const P& x, const P& /*y*/) const {
    const P mean = affine(sum_axes(x, axes), 1.0 / count, 0.0);
    return affine(subtract(x, spread(mean, x.shape(), axes)), 2.0 / divisor, 0.0);
  }
};

struct LogSumExp : Reduction<LogSumExp> {
  static constexpr Description kDescription{.name = "logsumexp",
                                            .inputs = "x",
                                            .formula = "y = ln sum e^x over axes",
                                            .saved_inputs = 0b1,
                                            .saves_output = true};
  using Reduction::Reduction;
  template <class P>
  P slope(const P& x, const P& y) const {
    const P shift = replaced(y, equal(value_of(y), -kInfinity), 0.0);  // -inf - (-inf) would be NaN
    return exp(subtract(x, spread(shift, x.shape(), axes)));
  }
};

struct L2Norm : Reduction<L2Norm> {
  static constexpr Description kDescription{.name = "l2_norm",
                                            .inputs = "x",
                                            .formula = "y = sqrt(sum x^2) over axes",
                                            .saved_inputs = 0b1,
                                            .saves_output = true};
  using Reduction::Reduction;
  template <class P>
  P slope(const P& x, const P& y) const {
    return divide(x, spread(replaced(y, equal(value_of(y), 0.0), 1.0), x.shape(), axes));
  }
};

// The axes that a reduction of numbers is told of.
std::uint32_t every_axis(const char* name, const Var& x, SourceLine line) {
  expect_numbers(name, x, site_of(name, x, line));
  return all_axes(x);
}
std::uint32_t some_axes(const char* name, const Var& x, std::initializer_list<int> axes, SourceLine line) {
  const Site site = site_of(name, x, line);
  expect_numbers(name, x, site);
  return axis_bits(name, x, axes, site);
}

Var with_kept(const Var& y, const Var& x, std::uint32_t axes, Keep keep, SourceLine line) {
  return keep == Keep::yes ? reshape(y, with_ones_at(x.shape(), axes), line) : y;
}

Var sum_over(const Var& x, std::uint32_t axes, Keep keep, SourceLine line) {
  return with_kept(sum_axes(x, axes, line), x, axes, keep, line);
}

// The mean over no elements is 0/0, NaN, as NumPy and PyTorch have it.
Var mean_over(const Var& x, std::uint32_t axes, Keep keep, SourceLine line) {
  return affine(sum_over(x, axes, keep, line), 1.0 / static_cast<double>(count_of(x.shape(), axes)), 0.0, line);
}

template <class Op>
Var reduce(const Var& x, std::uint32_t axes, Keep keep, Tensor (*compute)(const Tensor&, std::uint32_t),
           SourceLine line) {
  expect_numbers(Op::kDescription.name, x, site_of(Op::kDescription.name, x, line));
  return with_kept(x.tape().record(Op(axes), {x}, compute(x.value(), axes), {}, line), x, axes, keep, line);
}

void expect_elements(const char* name, const Var& x, std::uint32_t axes, SourceLine line) {
  expect(count_of(x.shape(), axes) > 0, site_of(name, x, line), "{}: there are no elements to compare in {}", name,
         x.shape());
}

template <class Op>
Var extremum(const Var& x, std::uint32_t axes, Keep keep, Tensor (*compute)(const Tensor&, std::uint32_t),
             SourceLine line) {
  expect_elements(Op::kDescription.name, x, axes, line);
  return reduce<Op>(x, axes, keep, compute, line);
}

Var max_norm_over(const Var& x, std::uint32_t axes, Keep keep, SourceLine line) {
  expect_elements("max_norm", x, axes, line);
  return extremum<Max>(abs(x, line), axes, keep, max_axes, line);
}

Var variance_over(const Var& x, std::uint32_t axes, int correction, Keep keep, SourceLine line) {
  const Site site = site_of("variance", x, line);
  expect_numbers("variance", x, site);
  expect(correction >= 0, site, "variance: the correction must not be negative, got {}", correction);
  const Variance operation(axes, count_of(x.shape(), axes), correction);
  Tensor value = variance_axes(x.value(), axes, operation.divisor);
  return with_kept(x.tape().record(operation, {x}, std::move(value), {}, line), x, axes, keep, line);
}

Var deviation_over(const Var& x, std::uint32_t axes, int correction, Keep keep, SourceLine line) {
  const Site site = site_of("standard_deviation", x, line);
  expect_numbers("standard_deviation", x, site);
  expect(correction >= 0, site, "standard_deviation: the correction must not be negative, got {}", correction);
  const Index count = count_of(x.shape(), axes);
  const double divisor = count > correction ? static_cast<double>(count - correction) : kNaN;
  const Var centred = subtract(x, mean_over(x, axes, Keep::yes, line), line);
  const Var length = reduce<L2Norm>(centred, axes, keep, l2_norm_axes, line);
  return affine(length, 1.0 / std::sqrt(divisor), 0.0, line);
}

}  // namespace

Var sum_axes(const Var& x, std::uint32_t axes, SourceLine line) {
  const Site site = site_of("sum_axes", x, line);
  expect_numbers("sum_axes", x, site);
  expect(axes >> x.rank() == 0, site, "sum_axes: the bits {:#b} name more than the axes of {}", axes, x.shape());
  if (axes == 0) return x;
  return x.tape().record(Sum(axes), {x}, sum_axes(x.value(), axes), {}, line);
}

Var sum(const Var& x, SourceLine line) { return sum_over(x, every_axis("sum", x, line), Keep::no, line); }
Var sum(const Var& x, std::initializer_list<int> axes, Keep keep, SourceLine line) {
  return sum_over(x, some_axes("sum", x, axes, line), keep, line);
}

Var mean(const Var& x, SourceLine line) { return mean_over(x, every_axis("mean", x, line), Keep::no, line); }
Var mean(const Var& x, std::initializer_list<int> axes, Keep keep, SourceLine line) {
  return mean_over(x, some_axes("mean", x, axes, line), keep, line);
}

Var max(const Var& x, SourceLine line) {
  return extremum<Max>(x, every_axis("max", x, line), Keep::no, max_axes, line);
}
Var max(const Var& x, std::initializer_list<int> axes, Keep keep, SourceLine line) {
  return extremum<Max>(x, some_axes("max", x, axes, line), keep, max_axes, line);
}

Var min(const Var& x, SourceLine line) {
  return extremum<Min>(x, every_axis("min", x, line), Keep::no, min_axes, line);
}
Var min(const Var& x, std::initializer_list<int> axes, Keep keep, SourceLine line) {
  return extremum<Min>(x, some_axes("min", x, axes, line), keep, min_axes, line);
}

Var variance(const Var& x, int correction, SourceLine line) {
  return variance_over(x, every_axis("variance", x, line), correction, Keep::no, line);
}
Var variance(const Var& x, std::initializer_list<int> axes, int correction, Keep keep, SourceLine line) {
  return variance_over(x, some_axes("variance", x, axes, line), correction, keep, line);
}

Var standard_deviation(const Var& x, int correction, SourceLine line) {
  return deviation_over(x, every_axis("standard_deviation", x, line), correction, Keep::no, line);
}
Var standard_deviation(const Var& x, std::initializer_list<int> axes, int correction, Keep keep, SourceLine line) {
  return deviation_over(x, some_axes("standard_deviation", x, axes, line), correction, keep, line);
}

Var logsumexp(const Var& x, SourceLine line) {
  return reduce<LogSumExp>(x, every_axis("logsumexp", x, line), Keep::no, logsumexp_axes, line);
}
Var logsumexp(const Var& x, std::initializer_list<int> axes, Keep keep, SourceLine line) {
  return reduce<LogSumExp>(x, some_axes("logsumexp", x, axes, line), keep, logsumexp_axes, line);
}

Var l1_norm(const Var& x, SourceLine line) {
  const std::uint32_t axes = every_axis("l1_norm", x, line);
  return sum_over(abs(x, line), axes, Keep::no, line);
}
Var l1_norm(const Var& x, std::initializer_list<int> axes, Keep keep, SourceLine line) {
  const std::uint32_t bits = some_axes("l1_norm", x, axes, line);
  return sum_over(abs(x, line), bits, keep, line);
}

Var l2_norm(const Var& x, SourceLine line) {
  return reduce<L2Norm>(x, every_axis("l2_norm", x, line), Keep::no, l2_norm_axes, line);
}
Var l2_norm(const Var& x, std::initializer_list<int> axes, Keep keep, SourceLine line) {
  return reduce<L2Norm>(x, some_axes("l2_norm", x, axes, line), keep, l2_norm_axes, line);
}

Var max_norm(const Var& x, SourceLine line) {
  return max_norm_over(x, every_axis("max_norm", x, line), Keep::no, line);
}
Var max_norm(const Var& x, std::initializer_list<int> axes, Keep keep, SourceLine line) {
  return max_norm_over(x, some_axes("max_norm", x, axes, line), keep, line);
}

}  // namespace jnorm
