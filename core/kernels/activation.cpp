// ReLU, the two GELUs (Hendrycks and Gimpel 2016) and SiLU, and their derivatives.
//
//   relu   y = max(x, 0)                    dy/dx = 1 where x > 0, else 0
//   gated  y = x gate(x)                    dy/dx = gate(x) + x gate'(x)
//            gelu:       gate = Phi(x), the normal distribution function;  gate' = phi(x)
//            gelu_tanh:  gate = (1 + tanh(w/2)) / 2 = 1 / (1 + exp(-w)),   gate' = gate (1 - gate) w',
//                        w = 2 sqrt(2/pi) (x + 0.044715 x^3)
//            silu:       gate = 1 / (1 + exp(-x)),                         gate' = gate (1 - gate)
//
// 1 + erf and 1 + tanh cancel in the negative tail, in float32 to exactly 0 beyond -6. So the gate is computed at -|x|,
// where it is a small number and stays one, and gate(|x|) = 1 - gate(-|x|) gives the other half:
//
//   y = max(x, 0) - |x| gate(-|x|)          dy/dx = h where x < 0, else 1 - h,  h = gate(-|x|) - |x| gate'(-|x|)
//
// What is left is the rounding of |x|^2 in an exponent, a relative error that grows as x^2 ulp and is less than that of
// x itself being rounded. A gate below the smallest normal number is 0. NaN stays NaN in x, and in dy even where the
// derivative is 0: dy is multiplied by it.

#include <numbers>

#include <jnorm/core/dtype.hpp>
#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/kernels/normal_tail.hpp>
#include <jnorm/core/kernels/rows.hpp>
#include <jnorm/core/parallel.hpp>

namespace jnorm::cpu {

namespace {

constexpr Index kGrain = 32768;

// The sum of coefficients[i] x^i.
template <class T, std::size_t N>
Batch<T> polynomial(const T (&coefficients)[N], const Batch<T>& x) {
  Batch<T> sum(coefficients[N - 1]);
  for (std::size_t i = N - 1; i-- > 0;) sum = xsimd::fma(sum, x, Batch<T>(coefficients[i]));
  return sum;
}

// 2^x for x <= 0. xsimd's exp2 has more to guard against, which takes twice the time in float32.
template <class T>
Batch<T> exp2_nonpositive(const Batch<T>& x) {
  if constexpr (std::is_same_v<T, float>) {  // 2^(whole + part), |part| <= 1/2; the polynomial's error is 1.9e-9
    const Batch<float> lowest(-126.0f);
    const Batch<float> exponent = xsimd::max(lowest, x);
    const Batch<float> whole = xsimd::nearbyint(exponent), part = exponent - whole;
    constexpr float powers[]{
        1.0f, 0.6931472057f, 0.2402264689f, 0.05550328777f, 0.009618488995f, 0.001339993114f, 0.0001534580181f};
    const Batch<float> mantissa = polynomial(powers, part);
    const auto bits = xsimd::bitwise_cast<Batch<std::int32_t>>(mantissa) + (xsimd::to_int(whole) << 23);
    return xsimd::select(exponent <= lowest, Batch<float>(0.0f), xsimd::bitwise_cast<Batch<float>>(bits));
  } else {
    return xsimd::exp2(x);
  }
}

template <class T>
struct Gate {
  Batch<T> value, slope;  // at -a
};

// Each gate is 0 at -kFar.
struct GeluGate {
  static constexpr double kFar = 40;
  template <class T>
  static Gate<T> at_minus(const Batch<T>& a) {
    const Batch<T> bell = exp2_nonpositive(a * a * Batch<T>(T(-0.5 * std::numbers::log2e)));
    constexpr NormalTail<T> tail;
    const Batch<T> ratio = polynomial(tail.numerator, a) / polynomial(tail.denominator, a);
    constexpr double scale = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    return {bell * ratio, bell * Batch<T>(T(scale))};
  }
};

struct GeluTanhGate {
  static constexpr double kFar = 40;
  template <class T>
  static Gate<T> at_minus(const Batch<T>& a) {
    constexpr double linear = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi, cubic = 0.044715 * linear;
    constexpr double log2e = std::numbers::log2e;  // exp(-w) = 2^(-w log2(e))
    const Batch<T> square = a * a, one(T(1));
    const Batch<T> minus_w = a * xsimd::fma(square, Batch<T>(T(-cubic * log2e)), Batch<T>(T(-linear * log2e)));
    const Batch<T> w_slope = xsimd::fma(square, Batch<T>(T(3 * cubic)), Batch<T>(T(linear)));
    const Batch<T> z = exp2_nonpositive(minus_w), rest = one / (one + z), value = z * rest;
    return {value, value * rest * w_slope};
  }
};

struct SiluGate {
  static constexpr double kFar = 750;
  template <class T>
  static Gate<T> at_minus(const Batch<T>& a) {
    const Batch<T> one(T(1)), z = exp2_nonpositive(a * Batch<T>(T(-std::numbers::log2e)));
    const Batch<T> rest = one / (one + z), value = z * rest;
    return {value, value * rest};
  }
};

template <class GateOf>
struct Gated {
  template <class T>
  static Batch<T> value(const Batch<T>& x) {
    const Batch<T> a = magnitude(x);
    return xsimd::max(Batch<T>(T(0)), x) - a * GateOf::at_minus(a).value;
  }
  template <class T>
  static Batch<T> derivative(const Batch<T>& x) {
    const Batch<T> a = magnitude(x), zero(T(0)), one(T(1));
    const Gate<T> gate = GateOf::at_minus(a);
    const Batch<T> tail = gate.value - a * gate.slope;
    return xsimd::select(x < zero, tail, one - tail);
  }

 private:
  // |x|, at most kFar. A NaN as the second operand is what min and max return.
  template <class T>
  static Batch<T> magnitude(const Batch<T>& x) {
    return xsimd::min(Batch<T>(T(GateOf::kFar)), xsimd::abs(x));
  }
};

struct Relu {
  template <class T>
  static Batch<T> value(const Batch<T>& x) {
    const Batch<T> zero(T(0));
    return xsimd::select(x <= zero, zero, x);
  }
  template <class T>
  static Batch<T> derivative(const Batch<T>& x) {
    const Batch<T> zero(T(0)), one(T(1));
    return xsimd::select(x <= zero, zero, xsimd::select(x > zero, one, x));
  }
};

template <class F>
decltype(auto) dispatch_activation(Activation op, F&& f) {
  switch (op) {
    case Activation::relu: return f(Relu{});
    case Activation::gelu: return f(Gated<GeluGate>{});
    case Activation::gelu_tanh: return f(Gated<GeluTanhGate>{});
    case Activation::silu: return f(Gated<SiluGate>{});
  }
}

}  // namespace

void activation(Activation op, const Tensor& x, const Tensor& y) {
  dispatch_wide("activation", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    dispatch_activation(op, [&](auto function) {
      parallel_for(x.size(), kGrain, [&](Index begin, Index end) {
        const T* const in = x.data<T>();
        T* const out = y.output_data<T>();
        for_each_batch<T>(begin, end, [=](auto at) { at.store(out, function.value(at.load(in))); });
      });
    });
  });
}

void activation_dx(Activation op, const Tensor& dy, const Tensor& x, const Destination& dx) {
  if (!dx.wanted()) return;
  dispatch_wide("activation_dx", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Index size = x.size(), all = dy.size();
    dispatch_activation(op, [&](auto function) {
      parallel_for(size, kGrain, [&](Index begin, Index end) {
        const T* const in = x.data<T>();
        const T* const g = dy.data<T>();
        T* const out = dx.tensor.output_data<T>();
        const bool add = dx.add;
        for_each_batch<T>(begin, end, [=](auto at) {
          const Batch<T> slope = function.derivative(at.load(in));
          for (Index copy = 0; copy < all; copy += size) put(at, out + copy, at.load(g + copy) * slope, add);
        });
      });
    });
  });
}

}  // namespace jnorm::cpu
