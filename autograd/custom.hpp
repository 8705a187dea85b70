#pragma once

// Operations of one's own, written as xtensor expressions:
//
//   auto swish = custom("swish",
//       [](auto& x, auto& y) { y = x / (1 + xt::exp(-x)); },
//       [](auto& x, auto& y, auto& dy, auto& dx) { dx = dy * (y + (1 - y) / (1 + xt::exp(-x))); });
//   Var y = swish(x);
//   print(check_gradients(swish, {randn({3, 4}, rng)}));
//
// Two or three inputs work alike: forward(a, b, y) and backward(a, b, y, dy, da, db). The lambdas are generic and run
// in the inputs' dtype, and for the narrow dtypes in float32; results go into the last arguments, which take any shape
// that is assigned to them. A lambda that returns something is refused by the compiler: a lazy expression would refer
// to its dead locals. The sweeps of a dense Jacobian call backward in several threads at once.

#include <array>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <jnorm/autograd/tape.hpp>
#include <jnorm/core/xtensor.hpp>

namespace jnorm {

// What a custom operation computes, for tensors of either wide dtype.
class CustomFunction {
 public:
  explicit CustomFunction(std::string name)
      : name_(std::move(name)), description_{.name = name_.c_str(), .inputs = "x0 x1 x2", .formula = "user-defined"} {
    description_.saved_inputs = 0b111;
    description_.saves_output = true;
  }
  virtual ~CustomFunction() = default;
  CustomFunction(const CustomFunction&) = delete;
  CustomFunction& operator=(const CustomFunction&) = delete;

  const Description& description() const { return description_; }
  virtual std::size_t arity() const = 0;
  virtual Tensor forward(std::span<const Tensor> inputs) const = 0;
  virtual std::array<Tensor, 3> backward(std::span<const Tensor> inputs, const Tensor& y, const Tensor& dy) const = 0;

 private:
  std::string name_;
  Description description_;
};

// A custom operation, called like any other. A cheap handle.
class Custom {
 public:
  explicit Custom(std::shared_ptr<const CustomFunction> function) : function_(std::move(function)) {}

  // Throws Error(argument) on a wrong number of inputs or mixed dtypes.
  Var apply(std::span<const Var> inputs, SourceLine line = SourceLine::here()) const;
  Var operator()(const Var& x, SourceLine line = SourceLine::here()) const { return apply({&x, 1}, line); }
  Var operator()(const Var& a, const Var& b, SourceLine line = SourceLine::here()) const {
    const std::array<Var, 2> inputs{a, b};
    return apply(inputs, line);
  }
  Var operator()(const Var& a, const Var& b, const Var& c, SourceLine line = SourceLine::here()) const {
    const std::array<Var, 3> inputs{a, b, c};
    return apply(inputs, line);
  }

 private:
  std::shared_ptr<const CustomFunction> function_;
};

namespace detail {

template <class F, class X, class Indices>
struct TakesInputs;
template <class F, class X, std::size_t... I>
struct TakesInputs<F, X, std::index_sequence<I...>> {
  template <std::size_t>
  using Each = X&;
  // The inputs, then the output.
  static constexpr bool value = std::is_invocable_v<F&, Each<I>..., X&>;
};

// How many inputs a forward lambda takes: 1, 2 or 3.
template <class F>
constexpr std::size_t arity_of() {
  using X = xt::xarray<double>;
  if constexpr (TakesInputs<F, X, std::make_index_sequence<1>>::value) {
    return 1;
  } else if constexpr (TakesInputs<F, X, std::make_index_sequence<2>>::value) {
    return 2;
  } else {
    static_assert(TakesInputs<F, X, std::make_index_sequence<3>>::value,
                  "custom: forward takes one to three inputs and the output: (auto& x, auto& y)");
    return 3;
  }
}

template <class Forward, class Backward>
class LambdaFunction final : public CustomFunction {
 public:
  LambdaFunction(std::string name, Forward forward, Backward backward)
      : CustomFunction(std::move(name)), forward_(std::move(forward)), backward_(std::move(backward)) {}

  std::size_t arity() const override { return kArity; }

  Tensor forward(std::span<const Tensor> inputs) const override {
    return dispatch_wide("custom", inputs[0].dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      return call_forward<T>(inputs, std::make_index_sequence<kArity>());
    });
  }

  std::array<Tensor, 3> backward(std::span<const Tensor> inputs, const Tensor& y, const Tensor& dy) const override {
    return dispatch_wide("custom", y.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      return call_backward<T>(inputs, y, dy, std::make_index_sequence<kArity>());
    });
  }

 private:
  static constexpr std::size_t kArity = arity_of<Forward>();

  template <class T, std::size_t... I>
  Tensor call_forward(std::span<const Tensor> inputs, std::index_sequence<I...>) const {
    xt::xarray<T> y;
    const auto views = std::make_tuple(as_xtensor<T>(inputs[I])...);
    using Result = decltype(forward_(std::get<I>(views)..., y));
    static_assert(std::is_void_v<Result>, "custom: assign the result to the last argument instead of returning it");
    forward_(std::get<I>(views)..., y);
    return from_xtensor<T>(y);
  }

  template <class T, std::size_t... I>
  std::array<Tensor, 3> call_backward(std::span<const Tensor> inputs, const Tensor& y, const Tensor& dy,
                                      std::index_sequence<I...>) const {
    std::array<xt::xarray<T>, kArity> gradients;
    const auto views = std::make_tuple(as_xtensor<T>(inputs[I])...);
    const auto output = as_xtensor<T>(y);
    const auto cotangent = as_xtensor<T>(dy);
    using Result = decltype(backward_(std::get<I>(views)..., output, cotangent, gradients[I]...));
    static_assert(std::is_void_v<Result>,
                  "custom: assign the gradients to the last arguments instead of returning them");
    backward_(std::get<I>(views)..., output, cotangent, gradients[I]...);
    return {from_xtensor<T>(gradients[I])...};
  }

  Forward forward_;
  Backward backward_;
};

}  // namespace detail

// forward(inputs..., y) assigns y; backward(inputs..., y, dy, gradients...) assigns one gradient an input.
template <class Forward, class Backward>
Custom custom(std::string name, Forward forward, Backward backward) {
  return Custom(std::make_shared<detail::LambdaFunction<Forward, Backward>>(std::move(name), std::move(forward),
                                                                            std::move(backward)));
}

}  // namespace jnorm
