// Reductions over axes: one loop for all of them, in float64, rounded once.
//
// Where the last axis goes away, a result runs over contiguous elements in a few accumulators side by side; where it
// stays, a strip of results runs over rows. What needs two passes takes both for one result or strip, while a cache may
// hold its elements. Each result is one thread's, so the number of threads changes nothing.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/kernels/walk.hpp>
#include <jnorm/core/layout.hpp>

namespace jnorm::cpu {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// An operation: its result over nothing, one element more, two partial results together, and the last step. `pivot` is
// what op.before() makes of the same elements, or the first of them where there is no operation before this one.
struct Sum {
  static constexpr double kStart = 0.0;
  double add(double total, double x, double /*pivot*/) const { return total + x; }
  double join(double a, double b) const { return a + b; }
  double finish(double total, double /*pivot*/) const { return total; }
};
struct L2Norm : Sum {
  double add(double total, double x, double /*pivot*/) const { return total + x * x; }
  double finish(double total, double /*pivot*/) const { return std::sqrt(total); }
};
struct Max {
  static constexpr double kStart = -kInfinity;
  double join(double a, double b) const { return a > b || std::isnan(a) ? a : b; }  // NaN wins
  double add(double total, double x, double /*pivot*/) const { return join(total, x); }
  double finish(double total, double /*pivot*/) const { return total; }
};
struct Min : Max {
  static constexpr double kStart = kInfinity;
  double join(double a, double b) const { return a < b || std::isnan(a) ? a : b; }
  double add(double total, double x, double /*pivot*/) const { return join(total, x); }
};
// The shift, the largest element, keeps exp from overflowing. An infinite one would give inf - inf: 0 serves there.
struct LogSumExp : Sum {
  Max before() const { return {}; }
  double shift(double largest) const { return std::isinf(largest) ? 0.0 : largest; }
  double add(double total, double x, double largest) const { return total + std::exp(x - shift(largest)); }
  double finish(double total, double largest) const { return std::log(total) + shift(largest); }
};
// By what the elements are above the first one, so that the mean of equal ones is exactly that.
struct Mean : Sum {
  double count;
  explicit Mean(double n) : count(n) {}
  double add(double total, double x, double first) const { return total + (x - first); }
  double finish(double total, double first) const { return first + total / count; }
};
struct Variance : Sum {
  double count, divisor;
  Variance(double n, double d) : count(n), divisor(d) {}
  Mean before() const { return Mean(count); }
  double add(double total, double x, double mean) const { return total + (x - mean) * (x - mean); }
  double finish(double total, double /*mean*/) const { return total / divisor; }
};

// Some of a shape's axes, with their strides.
struct Axes {
  Shape shape;
  Sizes strides{};

  // Where the element of this number lies.
  Index offset(Index number) const {
    Index sum = 0;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      sum += number % shape[axis] * strides[static_cast<std::size_t>(axis)];
      number /= shape[axis];
    }
    return sum;
  }
};

// The axes of x before its last one whose bit is set.
Axes outer_axes(const Shape& x, std::uint32_t bits) {
  const Sizes own = row_major(x).steps;
  std::vector<Index> sizes;
  Axes axes;
  for (int axis = 0; axis < x.rank() - 1; ++axis) {
    if ((bits >> axis & 1u) == 0) continue;
    axes.strides[sizes.size()] = own[static_cast<std::size_t>(axis)];
    sizes.push_back(x[axis]);
  }
  axes.shape = Shape(std::span<const Index>(sizes));
  return axes;
}

template <class Op>
concept HasBefore = requires(const Op& op) {
  op.before();
};

template <class Op, class T>
double reduce_run(const Op& op, const T* x, Index length, double pivot) {
  constexpr Index lanes = 16;
  double totals[lanes];
  std::fill_n(totals, lanes, Op::kStart);
  Index i = 0;
  for (; i + lanes <= length; i += lanes) {
#pragma omp simd
    for (Index lane = 0; lane < lanes; ++lane) {
      totals[lane] = op.add(totals[lane], static_cast<double>(x[i + lane]), pivot);
    }
  }
  for (Index lane = 0; i + lane < length; ++lane) {
    totals[lane] = op.add(totals[lane], static_cast<double>(x[i + lane]), pivot);
  }
  for (Index half = lanes / 2; half > 0; half /= 2) {
    for (Index lane = 0; lane < half; ++lane) totals[lane] = op.join(totals[lane], totals[lane + half]);
  }
  return totals[0];
}

// One result, from contiguous runs that begin at x plus the offsets of `gone`.
template <class Op, class T>
double reduce_runs_of(const Op& op, const T* x, Index length, const Axes& gone) {
  double pivot = 0.0;
  if constexpr (HasBefore<Op>) {
    pivot = reduce_runs_of(op.before(), x, length, gone);
  } else if (gone.shape.size() * length > 0) {
    pivot = static_cast<double>(x[0]);
  }
  double total = Op::kStart;
  walk(gone.shape, gone.strides,
       [&](Index offset) { total = op.join(total, reduce_run(op, x + offset, length, pivot)); });
  return op.finish(total, pivot);
}

// The last axis goes away.
template <class Op, class T>
void reduce_runs(const Op& op, const T* x, Index length, const Axes& kept, const Axes& gone, double* y) {
  parallel_for(kept.shape.size(), grain_for(gone.shape.size() * length), [&](Index begin, Index end) {
    for (Index result = begin; result < end; ++result) {
      y[result] = reduce_runs_of(op, x + kept.offset(result), length, gone);
    }
  });
}

constexpr Index kStrip = 64;

// `count` neighbouring results, at most kStrip, from rows that begin at x plus the offsets of `gone`.
template <class Op, class T>
void reduce_strip(const Op& op, const T* x, Index count, const Axes& gone, double* results) {
  double pivots[kStrip]{};
  if constexpr (HasBefore<Op>) {
    reduce_strip(op.before(), x, count, gone, pivots);
  } else if (gone.shape.size() > 0) {
    std::copy_n(x, count, pivots);
  }
  double totals[kStrip];
  std::fill_n(totals, kStrip, Op::kStart);
  walk(gone.shape, gone.strides, [&](Index offset) {
#pragma omp simd
    for (Index i = 0; i < count; ++i) totals[i] = op.add(totals[i], static_cast<double>(x[offset + i]), pivots[i]);
  });
  for (Index i = 0; i < count; ++i) results[i] = op.finish(totals[i], pivots[i]);
}

// The last axis stays: strips of results from rows.
template <class Op, class T>
void reduce_strips(const Op& op, const T* x, Index width, const Axes& kept, const Axes& gone, double* y) {
  const Index strips = (width + kStrip - 1) / kStrip;
  parallel_for(kept.shape.size() * strips, grain_for(gone.shape.size() * kStrip), [&](Index begin, Index end) {
    for (Index item = begin; item < end; ++item) {
      const Index row = item / strips, first = item % strips * kStrip, count = std::min(kStrip, width - first);
      reduce_strip(op, x + kept.offset(row) + first, count, gone, y + row * width + first);
    }
  });
}

template <class Op>
void reduce_with(const Op& op, const Tensor& x, std::uint32_t kept, double* y) {
  dispatch_wide("reduce", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Axes stays = outer_axes(x.shape(), kept), goes = outer_axes(x.shape(), ~kept);
    const Index last = inner_size(x.shape());
    const bool last_stays = x.rank() == 0 || (kept >> (x.rank() - 1) & 1u) != 0;
    if (last_stays) {
      reduce_strips(op, x.data<T>(), last, stays, goes, y);
    } else {
      reduce_runs(op, x.data<T>(), last, stays, goes, y);
    }
  });
}

// Calls f with where the results go in float64, and rounds them to y.
template <class F>
void in_float64(const Tensor& y, const F& f) {
  const Tensor wide = y.dtype() == DType::float64 ? y : Tensor::uninitialized(y.shape(), DType::float64);
  f(wide.output_data<double>());
  if (y.dtype() != DType::float64) convert(wide, y);
}

}  // namespace

void sum(const Tensor& x, std::uint32_t kept, const Tensor& y) {
  in_float64(y, [&](double* results) { reduce_with(Sum{}, x, kept, results); });
}

void reduce(ReduceOp op, const Tensor& x, std::uint32_t kept, const Tensor& y) {
  in_float64(y, [&](double* results) {
    switch (op) {
      case ReduceOp::max: return reduce_with(Max{}, x, kept, results);
      case ReduceOp::min: return reduce_with(Min{}, x, kept, results);
      case ReduceOp::l2_norm: return reduce_with(L2Norm{}, x, kept, results);
      case ReduceOp::logsumexp: return reduce_with(LogSumExp{}, x, kept, results);
    }
  });
}

void variance(const Tensor& x, std::uint32_t kept, double divisor, const Tensor& y) {
  if (y.size() == 0) return;
  const Index count = x.size() / y.size();
  in_float64(y, [&](double* results) { reduce_with(Variance(static_cast<double>(count), divisor), x, kept, results); });
}

}  // namespace jnorm::cpu
