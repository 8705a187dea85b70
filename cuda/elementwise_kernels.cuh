#pragma once

// What elementwise kernels compute of each element: the functions that map.cuh takes.

#include <jnorm/core/kernels.hpp>
#include <jnorm/cuda/portable.cuh>

namespace jnorm::cuda {

template <class T>
constexpr bool kIsNarrow = std::is_same_v<T, DeviceBFloat16> || std::is_same_v<T, DeviceFloat16>;

// Rounds once: float64 goes to a narrow type directly, not by way of float32.
template <class To, class From>
JNORM_DEVICE To convert_element(From x) {
  if constexpr (kIsNarrow<From>) {
    return static_cast<To>(static_cast<float>(x));
  } else if constexpr (kIsNarrow<To> && !std::is_same_v<From, float>) {
    return static_cast<To>(static_cast<double>(x));
  } else {
    return static_cast<To>(x);
  }
}

template <class To>
struct Convert {
  template <class From>
  JNORM_DEVICE To operator()(From x) const {
    return convert_element<To>(x);
  }
};

template <class T>
struct Constant {
  double value;
  JNORM_DEVICE T operator()() const { return convert_element<T>(value); }
};

template <UnaryOp op>
struct Unary {
  template <class W>
  JNORM_DEVICE W operator()(W x) const {
    if constexpr (op == UnaryOp::negate) return -x;
    if constexpr (op == UnaryOp::exp) return std::exp(x);
    if constexpr (op == UnaryOp::log) return std::log(x);
    if constexpr (op == UnaryOp::sqrt) return std::sqrt(x);
    if constexpr (op == UnaryOp::rsqrt) return reciprocal_root(x);
    if constexpr (op == UnaryOp::reciprocal) return W(1) / x;
    if constexpr (op == UnaryOp::square) return x * x;
    if constexpr (op == UnaryOp::tanh) return std::tanh(x);
    if constexpr (op == UnaryOp::abs) return std::fabs(x);
    if constexpr (op == UnaryOp::sign) return x > W(0) ? W(1) : x < W(0) ? W(-1) : x;  // keeps 0, -0 and NaN
    if constexpr (op == UnaryOp::erf) return std::erf(x);
    if constexpr (op == UnaryOp::log1p) return std::log1p(x);
    if constexpr (op == UnaryOp::expm1) return std::expm1(x);
    if constexpr (op == UnaryOp::sigmoid) {
      const W e = std::exp(-std::fabs(x));  // nothing overflows, and the small half keeps its digits
      return (x < W(0) ? e : W(1)) / (W(1) + e);
    }
  }
};

template <BinaryOp op>
struct Binary {
  template <class W>
  JNORM_DEVICE W operator()(W a, W b) const {
    if constexpr (op == BinaryOp::add) return a + b;
    if constexpr (op == BinaryOp::subtract) return a - b;
    if constexpr (op == BinaryOp::multiply) return a * b;
    if constexpr (op == BinaryOp::divide) return a / b;
    if constexpr (op == BinaryOp::power) return std::pow(a, b);
    if constexpr (op == BinaryOp::maximum) return a > b || a != a ? a : b;
    if constexpr (op == BinaryOp::minimum) return a < b || a != a ? a : b;
    if constexpr (op == BinaryOp::maximum_share) return a > b ? W(1) : a < b ? W(0) : a == b ? W(0.5) : a + b;
  }
};

template <ParametricOp op, class W>
struct Parametric {
  W p, q;
  JNORM_DEVICE W operator()(W x) const {
    if constexpr (op == ParametricOp::power) return std::pow(x, p);
    if constexpr (op == ParametricOp::clamp) return x < p ? p : x > q ? q : x;
    if constexpr (op == ParametricOp::clamp_slope) return x < p || x > q ? W(0) : x != x ? x : W(1);
  }
};

// The comparisons as sets of what two numbers can be to one another.
constexpr unsigned kLess = 1, kEqual = 2, kGreater = 4, kUnordered = 8;

template <class T>
JNORM_DEVICE auto comparable(T x) {
  if constexpr (kIsNarrow<T>) {
    return widen(x);
  } else {
    return x;
  }
}

template <class T>
struct Compare {
  unsigned holds;
  JNORM_DEVICE std::int32_t operator()(T a, T b) const {
    const auto l = comparable(a), r = comparable(b);
    const unsigned relation = l < r ? kLess : l == r ? kEqual : l > r ? kGreater : kUnordered;
    return (relation & holds) != 0 ? 1 : 0;
  }
};

template <class T>
struct BothHold {
  JNORM_DEVICE std::int32_t operator()(T a, T b) const { return comparable(a) != 0 && comparable(b) != 0 ? 1 : 0; }
};

template <class Raw>
struct Choose {
  JNORM_DEVICE Raw operator()(std::int32_t holds, Raw a, Raw b) const { return holds != 0 ? a : b; }
};

template <class W>
struct Affine {
  W scale, shift;
  JNORM_DEVICE W operator()(W x) const { return scale * x + shift; }
};

template <class W>
struct AddScaled {
  W scale;
  JNORM_DEVICE W operator()(W y, W x) const { return y + scale * x; }
};

}  // namespace jnorm::cuda
