// One step of an optimizer in one pass over the parameter, its gradient and its moments; and the reductions over
// gradients that a training step asks for.

#include <atomic>
#include <bit>
#include <cmath>
#include <vector>

#include <jnorm/core/dtype.hpp>
#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/kernels/narrow.hpp>
#include <jnorm/core/parallel.hpp>

namespace jnorm::cpu {

namespace {

constexpr Index kGrain = 32768;

template <class T>
double squares_of(const T* x, Index count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

template <class T>
bool all_finite(const T* x, Index count) {
  T poison = 0;  // 0 times infinity or NaN is NaN, and stays it
#pragma omp simd reduction(+ : poison)
  for (Index i = 0; i < count; ++i) poison += T(0) * x[i];
  return poison == T(0);
}

// What squares beyond float64's range need: the largest element m, and sqrt(sum((x / m)^2)) taken of what is left.
template <class T>
double largest_of(const T* x, Index count) {
  T largest = 0;
  for (Index i = 0; i < count; ++i) {
    const T size = std::abs(x[i]);
    if (!(size <= largest)) largest = size;
    if (std::isnan(largest)) break;
  }
  return static_cast<double>(largest);
}

double largest_of(const Tensor& x) {
  return dispatch_wide("global_norm", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    return largest_of(x.data<T>(), x.size());
  });
}

double scaled_norm(std::span<const Tensor> parts) {
  double largest = 0;
  for (const Tensor& part : parts) {
    const double size = largest_of(part);
    if (std::isnan(size)) return size;
    largest = std::max(largest, size);
  }
  if (largest == 0 || std::isinf(largest)) return largest;
  double squares = 0;
  for (const Tensor& part : parts) {
    dispatch_wide("global_norm", part.dtype(), [&](auto tag) {
      const auto* const element = part.data<typename decltype(tag)::type>();
      for (Index i = 0; i < part.size(); ++i) squares += (element[i] / largest) * (element[i] / largest);
    });
  }
  return largest * std::sqrt(squares);
}

// Whether a sum of squares has kept its digits: none of those that matter left float64's range.
bool keeps_digits(double squares) { return squares >= 1e-280 && squares <= 1e300; }

// Adam (Kingma and Ba 2015), and AdamW (Loshchilov and Hutter 2019) where the weight decay is decoupled:
//   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
//   p = p - learning_rate (m / bias_correction1) / (sqrt(v / bias_correction2) + eps)
// The stored moments stay uncorrected.
void adam_step(const AdamStep& step, const Tensor& gradient, const Tensor& parameter, const Tensor& m,
               const Tensor& v) {
  dispatch_wide("adam", parameter.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const g = gradient.data<T>();
    T* const p = parameter.write_in_place<T>();
    T* const first = m.write_in_place<T>();
    T* const second = v.write_in_place<T>();
    const T beta1 = static_cast<T>(step.beta1), rest1 = static_cast<T>(1 - step.beta1);
    const T beta2 = static_cast<T>(step.beta2), rest2 = static_cast<T>(1 - step.beta2);
    const T rate = static_cast<T>(step.learning_rate / step.bias_correction1);
    const T root = static_cast<T>(1 / std::sqrt(step.bias_correction2));
    const T eps = static_cast<T>(step.eps);
    const T added_decay = static_cast<T>(step.coupled ? step.weight_decay : 0.0);
    const T decay = static_cast<T>(step.coupled ? 0.0 : step.learning_rate * step.weight_decay);
    parallel_for(parameter.size(), kGrain, [&](Index begin, Index end) {
#pragma omp simd
      for (Index i = begin; i < end; ++i) {
        const T slope = g[i] + added_decay * p[i];
        first[i] = beta1 * first[i] + rest1 * slope;
        second[i] = beta2 * second[i] + rest2 * slope * slope;
        p[i] -= decay * p[i] + rate * first[i] / (std::sqrt(second[i]) * root + eps);
      }
    });
  });
}

// velocity = momentum velocity + g,  p = p - learning_rate velocity; weight decay is part of g.
void sgd_step(const SgdStep& step, const Tensor& gradient, const Tensor& parameter, const Tensor& velocity) {
  dispatch_wide("sgd", parameter.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const g = gradient.data<T>();
    T* const p = parameter.write_in_place<T>();
    T* const speed = velocity.defined() ? velocity.write_in_place<T>() : nullptr;
    const T rate = static_cast<T>(step.learning_rate), momentum = static_cast<T>(step.momentum);
    const T decay = static_cast<T>(step.weight_decay);
    parallel_for(parameter.size(), kGrain, [&](Index begin, Index end) {
      if (speed == nullptr) {
#pragma omp simd
        for (Index i = begin; i < end; ++i) p[i] -= rate * (g[i] + decay * p[i]);
        return;
      }
#pragma omp simd
      for (Index i = begin; i < end; ++i) {
        speed[i] = momentum * speed[i] + (g[i] + decay * p[i]);
        p[i] -= rate * speed[i];
      }
    });
  });
}

}  // namespace

void adam(std::span<const AdamUpdate> updates) {
  for (const auto& [step, gradient, parameter, m, v] : updates) {
    widened<adam_step, Writes<>, Updates<2, 3, 4>>(step, gradient, parameter, m, v);
  }
}

void sgd(std::span<const SgdUpdate> updates) {
  for (const auto& [step, gradient, parameter, velocity] : updates) {
    widened<sgd_step, Writes<>, Updates<2, 3>>(step, gradient, parameter, velocity);
  }
}

void global_norm(std::span<const Tensor> parts, const Tensor& norm) {
  std::vector<Tensor> wide;
  double squares = 0;
  for (const Tensor& part : parts) {
    wide.push_back(part.dtype() == DType::float64 ? part : part.to(DType::float32));
    double more = 0;
    sum_of_squares(wide.back(), more);
    squares += more;
  }
  *norm.output_data<double>() = keeps_digits(squares) ? std::sqrt(squares) : scaled_norm(wide);
}

void clip_to_norm(std::span<const Tensor> xs, const Tensor& norm, double largest, std::span<const Tensor> ys) {
  const double now = *norm.data<double>();
  const double scale = std::isfinite(now) && now > largest ? largest / now : 1.0;
  for (std::size_t i = 0; i < xs.size(); ++i) widened<affine, Writes<3>>(xs[i], scale, 0.0, ys[i]);
}

void sum_of_squares(const Tensor& x, double& result) {
  dispatch_wide("sum_of_squares", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const element = x.data<T>();
    const Index parts = (x.size() + kGrain - 1) / kGrain;
    const Tensor scratch = Tensor::uninitialized({parts}, DType::float64);
    double* const partial = scratch.output_data<double>();
    parallel_for(x.size(), kGrain,
                 [&](Index begin, Index end) { partial[begin / kGrain] = squares_of(element + begin, end - begin); });
    result = 0;
    for (Index part = 0; part < parts; ++part) result += partial[part];
  });
}

void first_non_finite(const Tensor& x, Index& result) {
  dispatch_wide("first_non_finite", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const element = x.data<T>();
    std::atomic<Index> first{x.size()};
    parallel_for(x.size(), kGrain, [&](Index begin, Index end) {
      if (all_finite(element + begin, end - begin)) return;
      const Index found =
          std::find_if_not(element + begin, element + end, [](T e) { return std::isfinite(e); }) - element;
      Index known = first.load();
      while (found < known && !first.compare_exchange_weak(known, found)) {
      }
    });
    result = first.load() == x.size() ? -1 : first.load();
  });
}

}  // namespace jnorm::cpu
