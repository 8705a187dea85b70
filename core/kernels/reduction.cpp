// Reductions over axes: one loop for all of them, in float64, rounded once.
//
// Where the last axis goes away, a result runs over contiguous elements in a few accumulators side by side; where it
// stays, a strip of results runs over rows. Each result is one thread's, so the number of threads changes nothing.

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

// An operation: its result over nothing, one element more, two partial results together, and the last step. `result` is
// the number of the result that an element goes to.
struct Sum {
  static constexpr double kStart = 0.0;
  double add(double total, double x, Index /*result*/) const { return total + x; }
  double join(double a, double b) const { return a + b; }
  double finish(double total, Index /*result*/) const { return total; }
};
struct L2Norm : Sum {
  double add(double total, double x, Index /*result*/) const { return total + x * x; }
  double finish(double total, Index /*result*/) const { return std::sqrt(total); }
};
struct Max {
  static constexpr double kStart = -kInfinity;
  double join(double a, double b) const { return a > b || std::isnan(a) ? a : b; }  // NaN wins
  double add(double total, double x, Index /*result*/) const { return join(total, x); }
  double finish(double total, Index /*result*/) const { return total; }
};
struct Min : Max {
  static constexpr double kStart = kInfinity;
  double join(double a, double b) const { return a < b || std::isnan(a) ? a : b; }
  double add(double total, double x, Index /*result*/) const { return join(total, x); }
};
// The shift, the largest element, keeps exp from overflowing. An infinite one would give inf - inf: 0 serves there.
struct LogSumExp : Sum {
  const double* largest;
  explicit LogSumExp(const double* maxima) : largest(maxima) {}
  double shift(Index result) const { return std::isinf(largest[result]) ? 0.0 : largest[result]; }
  double add(double total, double x, Index result) const { return total + std::exp(x - shift(result)); }
  double finish(double total, Index result) const { return std::log(total) + shift(result); }
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

template <class Op, class T>
double reduce_run(const Op& op, const T* x, Index length, Index result) {
  constexpr Index lanes = 16;
  double totals[lanes];
  std::fill_n(totals, lanes, Op::kStart);
  Index i = 0;
  for (; i + lanes <= length; i += lanes) {
#pragma omp simd
    for (Index lane = 0; lane < lanes; ++lane) {
      totals[lane] = op.add(totals[lane], static_cast<double>(x[i + lane]), result);
    }
  }
  for (Index lane = 0; i + lane < length; ++lane) {
    totals[lane] = op.add(totals[lane], static_cast<double>(x[i + lane]), result);
  }
  for (Index half = lanes / 2; half > 0; half /= 2) {
    for (Index lane = 0; lane < half; ++lane) totals[lane] = op.join(totals[lane], totals[lane + half]);
  }
  return totals[0];
}

// The last axis goes away: result r from contiguous runs.
template <class Op, class T>
void reduce_runs(const Op& op, const T* x, Index length, const Axes& kept, const Axes& gone, double* y) {
  parallel_for(kept.shape.size(), grain_for(gone.shape.size() * length), [&](Index begin, Index end) {
    for (Index result = begin; result < end; ++result) {
      const T* const from = x + kept.offset(result);
      double total = Op::kStart;
      walk(gone.shape, gone.strides,
           [&](Index offset) { total = op.join(total, reduce_run(op, from + offset, length, result)); });
      y[result] = op.finish(total, result);
    }
  });
}

// The last axis stays: strips of results from rows.
template <class Op, class T>
void reduce_strips(const Op& op, const T* x, Index width, const Axes& kept, const Axes& gone, double* y) {
  constexpr Index strip = 64;
  const Index strips = (width + strip - 1) / strip;
  parallel_for(kept.shape.size() * strips, grain_for(gone.shape.size() * strip), [&](Index begin, Index end) {
    for (Index item = begin; item < end; ++item) {
      const Index row = item / strips, first = item % strips * strip, count = std::min(strip, width - first);
      const Index result = row * width + first;
      const T* const from = x + kept.offset(row) + first;
      double totals[strip];
      std::fill_n(totals, strip, Op::kStart);
      walk(gone.shape, gone.strides, [&](Index offset) {
#pragma omp simd
        for (Index i = 0; i < count; ++i) {
          totals[i] = op.add(totals[i], static_cast<double>(from[offset + i]), result + i);
        }
      });
      for (Index i = 0; i < count; ++i) y[result + i] = op.finish(totals[i], result + i);
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
      case ReduceOp::logsumexp: {
        std::vector<double> largest(static_cast<std::size_t>(y.size()));
        reduce_with(Max{}, x, kept, largest.data());
        return reduce_with(LogSumExp(largest.data()), x, kept, results);
      }
    }
  });
}

}  // namespace jnorm::cpu
