#pragma once

// ReLU, the two GELUs and SiLU with their derivatives, as functions for map.cuh. core/kernels/activation.cpp says what
// they are and why a gate is computed at -|x|:
//
//   y = max(x, 0) - |x| gate(-|x|)          dy/dx = h where x < 0, else 1 - h,  h = gate(-|x|) - |x| gate'(-|x|)

#include <numbers>

#include <jnorm/core/kernels/normal_tail.hpp>
#include <jnorm/cuda/portable.cuh>

namespace jnorm::cuda {

// The sum of coefficients[i] x^i.
template <class W, int N>
JNORM_DEVICE W polynomial(const W (&coefficients)[N], W x) {
  W sum = coefficients[N - 1];
  JNORM_UNROLL
  for (int i = N - 2; i >= 0; --i) sum = std::fma(sum, x, coefficients[i]);
  return sum;
}

// A gate and its slope at -a.
template <class W>
struct Gate {
  W value, slope;
};

// Each gate is 0 at -kFar.
template <class W>
struct GeluGate {
  static constexpr W kFar = 40;
  NormalTail<W> tail;  // among the kernel's parameters, which the GPU's instructions read as fast as registers

  JNORM_DEVICE Gate<W> at_minus(W a) const {
    constexpr double scale = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    const W bell = std::exp2(a * a * W(-0.5 * std::numbers::log2e));
    return {bell * (polynomial(tail.numerator, a) / polynomial(tail.denominator, a)), bell * W(scale)};
  }
};

template <class W>
struct GeluTanhGate {
  static constexpr W kFar = 40;

  JNORM_DEVICE Gate<W> at_minus(W a) const {
    constexpr double linear = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi, cubic = 0.044715 * linear;
    constexpr double log2e = std::numbers::log2e;  // exp(-w) = 2^(-w log2(e))
    const W square = a * a;
    const W minus_w = a * std::fma(square, W(-cubic * log2e), W(-linear * log2e));
    const W w_slope = std::fma(square, W(3 * cubic), W(linear));
    const W z = std::exp2(minus_w), rest = W(1) / (W(1) + z), value = z * rest;
    return {value, value * rest * w_slope};
  }
};

template <class W>
struct SiluGate {
  static constexpr W kFar = 750;

  JNORM_DEVICE Gate<W> at_minus(W a) const {
    const W z = std::exp2(a * W(-std::numbers::log2e)), rest = W(1) / (W(1) + z), value = z * rest;
    return {value, value * rest};
  }
};

template <class W, class GateOf>
struct Gated {
  GateOf gate;

  JNORM_DEVICE W value(W x) const {
    const W a = magnitude(x);
    return (x > W(0) ? x : W(0)) - a * gate.at_minus(a).value;
  }
  JNORM_DEVICE W derivative(W x) const {
    const W a = magnitude(x);
    const Gate<W> at = gate.at_minus(a);
    const W h = at.value - a * at.slope;
    return x < W(0) ? h : W(1) - h;
  }

 private:
  JNORM_DEVICE static W magnitude(W x) {  // |x|, at most kFar; NaN stays NaN
    const W a = std::fabs(x);
    return a > GateOf::kFar ? GateOf::kFar : a;
  }
};

template <class W>
struct Relu {
  JNORM_DEVICE W value(W x) const { return x <= W(0) ? W(0) : x; }
  JNORM_DEVICE W derivative(W x) const { return x <= W(0) ? W(0) : x > W(0) ? W(1) : x; }
};

template <class Function>
struct Activate {
  Function function;
  template <class W>
  JNORM_DEVICE W operator()(W x) const {
    return function.value(x);
  }
};

// `before` is what dx holds already, where it is added to.
template <class Function>
struct ActivationGradient {
  Function function;
  template <class W>
  JNORM_DEVICE W operator()(W dy, W x, W before) const {
    return before + dy * function.derivative(x);
  }
};

}  // namespace jnorm::cuda
