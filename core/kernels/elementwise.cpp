// Elementwise kernels: one loop each, cut into chunks that several threads take.

#include <cmath>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/parallel.hpp>

namespace jnorm::cpu {

namespace {

constexpr Index kGrain = 32768;

template <class T, class F>
void map(const Tensor& x, const Tensor& y, F&& f) {
  const T* const in = x.data<T>();
  T* const out = y.output_data<T>();
  parallel_for(x.size(), kGrain, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) out[i] = f(in[i]);
  });
}

// y[i] = f(a[i], b[i]), where the shorter operand repeats along y.
template <class T, class Result = T, class F>
void zip(const Tensor& a, const Tensor& b, const Tensor& y, F&& f) {
  const T* const left = a.data<T>();
  const T* const right = b.data<T>();
  Result* const out = y.output_data<Result>();
  const Index period = std::min(a.size(), b.size());
  if (period == y.size()) {
    parallel_for(period, kGrain, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) out[i] = f(left[i], right[i]);
    });
    return;
  }
  if (period == 0) return;
  const bool left_repeats = a.size() == period;
  if (period == 1) {  // a number beside an array
    parallel_for(y.size(), kGrain, [&](Index begin, Index end) {
      if (left_repeats) {
        for (Index i = begin; i < end; ++i) out[i] = f(*left, right[i]);
      } else {
        for (Index i = begin; i < end; ++i) out[i] = f(left[i], *right);
      }
    });
    return;
  }
  parallel_for(y.size() / period, grain_for(period), [&](Index begin, Index end) {
    for (Index copy = begin; copy < end; ++copy) {
      const T* const l = left_repeats ? left : left + copy * period;
      const T* const r = left_repeats ? right + copy * period : right;
      Result* const o = out + copy * period;
      for (Index i = 0; i < period; ++i) o[i] = f(l[i], r[i]);
    }
  });
}

template <class From, class To>
void convert_elements(const From* x, To* y, Index count) {
  for (Index i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<From, To>) {
      y[i] = x[i];
    } else if constexpr (std::is_same_v<From, BFloat16> || std::is_same_v<From, Float16>) {
      y[i] = static_cast<To>(static_cast<float>(x[i]));
    } else if constexpr (std::is_same_v<To, BFloat16> || std::is_same_v<To, Float16>) {
      y[i] = To(static_cast<std::conditional_t<std::is_same_v<From, float>, float, double>>(x[i]));
    } else {
      y[i] = static_cast<To>(x[i]);
    }
  }
}

// The narrow types compare as float32.
template <class T>
auto widen(T v) {
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) {
    return static_cast<float>(v);
  } else {
    return v;
  }
}

template <class T>
T sign_of(T v) {
  return v > T(0) ? T(1) : v < T(0) ? T(-1) : v;  // keeps 0, -0 and NaN
}

// 1 / (1 + e^-x), from the exponential of -|x|: nothing overflows, and the small half keeps its digits.
template <class T>
T sigmoid_of(T v) {
  const T e = std::exp(-std::fabs(v));
  return (v < T(0) ? e : T(1)) / (T(1) + e);
}

// A NaN on either side wins: std::max and the processor's instructions keep one of the two sides.
template <class T>
T larger(T l, T r) {
  return l > r || std::isnan(l) ? l : r;
}
template <class T>
T smaller(T l, T r) {
  return l < r || std::isnan(l) ? l : r;
}
template <class T>
T share_of(T l, T r) {
  return l > r ? T(1) : l < r ? T(0) : l == r ? T(0.5) : l + r;
}

template <class T>
T clamp_to(T v, T low, T high) {
  return v < low ? low : v > high ? high : v;
}
template <class T>
T clamp_slope_at(T v, T low, T high) {
  return v < low || v > high ? T(0) : std::isnan(v) ? v : T(1);
}

}  // namespace

void fill(const Tensor& y, double value) {
  dispatch_any("fill", y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T element{};
    convert_elements(&value, &element, 1);
    std::fill_n(y.output_data<T>(), y.size(), element);
  });
}

void convert(const Tensor& x, const Tensor& y) {
  dispatch_any("convert", x.dtype(), [&](auto from) {
    dispatch_any("convert", y.dtype(), [&](auto to) {
      using From = typename decltype(from)::type;
      using To = typename decltype(to)::type;
      convert_elements(x.data<From>(), y.output_data<To>(), x.size());
    });
  });
}

void unary(UnaryOp op, const Tensor& x, const Tensor& y) {
  dispatch_wide("unary", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    switch (op) {
      case UnaryOp::negate: return map<T>(x, y, [](T v) { return -v; });
      case UnaryOp::exp: return map<T>(x, y, [](T v) { return std::exp(v); });
      case UnaryOp::log: return map<T>(x, y, [](T v) { return std::log(v); });
      case UnaryOp::sqrt: return map<T>(x, y, [](T v) { return std::sqrt(v); });
      case UnaryOp::rsqrt: return map<T>(x, y, [](T v) { return T(1) / std::sqrt(v); });
      case UnaryOp::reciprocal: return map<T>(x, y, [](T v) { return T(1) / v; });
      case UnaryOp::square: return map<T>(x, y, [](T v) { return v * v; });
      case UnaryOp::tanh: return map<T>(x, y, [](T v) { return std::tanh(v); });
      case UnaryOp::abs: return map<T>(x, y, [](T v) { return std::fabs(v); });
      case UnaryOp::sign: return map<T>(x, y, [](T v) { return sign_of(v); });
      case UnaryOp::erf: return map<T>(x, y, [](T v) { return std::erf(v); });
      case UnaryOp::log1p: return map<T>(x, y, [](T v) { return std::log1p(v); });
      case UnaryOp::expm1: return map<T>(x, y, [](T v) { return std::expm1(v); });
      case UnaryOp::sigmoid: return map<T>(x, y, [](T v) { return sigmoid_of(v); });
    }
  });
}

void binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& y) {
  dispatch_wide("binary", y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    switch (op) {
      case BinaryOp::add: return zip<T>(a, b, y, [](T l, T r) { return l + r; });
      case BinaryOp::subtract: return zip<T>(a, b, y, [](T l, T r) { return l - r; });
      case BinaryOp::multiply: return zip<T>(a, b, y, [](T l, T r) { return l * r; });
      case BinaryOp::divide: return zip<T>(a, b, y, [](T l, T r) { return l / r; });
      case BinaryOp::power: return zip<T>(a, b, y, [](T l, T r) { return std::pow(l, r); });
      case BinaryOp::maximum: return zip<T>(a, b, y, [](T l, T r) { return larger(l, r); });
      case BinaryOp::minimum: return zip<T>(a, b, y, [](T l, T r) { return smaller(l, r); });
      case BinaryOp::maximum_share: return zip<T>(a, b, y, [](T l, T r) { return share_of(l, r); });
    }
  });
}

void parametric(ParametricOp op, const Tensor& x, double p, double q, const Tensor& y) {
  dispatch_wide("parametric", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T first = static_cast<T>(p), second = static_cast<T>(q);
    switch (op) {
      case ParametricOp::power: return map<T>(x, y, [=](T v) { return std::pow(v, first); });
      case ParametricOp::clamp: return map<T>(x, y, [=](T v) { return clamp_to(v, first, second); });
      case ParametricOp::clamp_slope: return map<T>(x, y, [=](T v) { return clamp_slope_at(v, first, second); });
    }
  });
}

void compare(CompareOp op, const Tensor& a, const Tensor& b, const Tensor& y) {
  dispatch_any("compare", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto mask = [&](auto holds) {
      zip<T, std::int32_t>(a, b, y, [=](T l, T r) { return static_cast<std::int32_t>(holds(widen(l), widen(r))); });
    };
    switch (op) {
      case CompareOp::less: return mask([](auto l, auto r) { return l < r; });
      case CompareOp::less_equal: return mask([](auto l, auto r) { return l <= r; });
      case CompareOp::greater: return mask([](auto l, auto r) { return l > r; });
      case CompareOp::greater_equal: return mask([](auto l, auto r) { return l >= r; });
      case CompareOp::equal: return mask([](auto l, auto r) { return l == r; });
      case CompareOp::not_equal: return mask([](auto l, auto r) { return l != r; });
      case CompareOp::logical_and: return mask([](auto l, auto r) { return l != 0 && r != 0; });
    }
  });
}

void where(const Tensor& mask, const Tensor& a, const Tensor& b, const Tensor& y) {
  dispatch_floating("where", y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const chosen = a.data<T>();
    const T* const other = b.data<T>();
    const std::int32_t* const holds = mask.data<std::int32_t>();
    T* const out = y.output_data<T>();
    parallel_for(y.size(), kGrain, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) out[i] = holds[i] != 0 ? chosen[i] : other[i];
    });
  });
}

void affine(const Tensor& x, double scale, double shift, const Tensor& y) {
  dispatch_wide("affine", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    map<T>(x, y, [a = static_cast<T>(scale), b = static_cast<T>(shift)](T v) { return a * v + b; });
  });
}

void accumulate(const Tensor& x, double scale, const Tensor& y) {
  dispatch_wide("accumulate", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const in = x.data<T>();
    T* const out = y.output_data<T>();
    const T factor = static_cast<T>(scale);
    parallel_for(x.size(), kGrain, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) out[i] += factor * in[i];
    });
  });
}

}  // namespace jnorm::cpu
