#pragma once

// What the norms have in common: checks of their arguments, and parameters that may be absent. Private.

#include <array>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/site.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

inline void expect_norm_arguments(const char* norm, const Var& x, double eps, const Site& site) {
  expect_numbers(norm, x, site);
  expect(x.rank() >= 1, site, "{}: expected at least one axis, got a scalar", norm);
  expect(eps >= 0.0, site, "{}: eps must not be negative, but is {}", norm, eps);  // NaN isn't >= 0 either
}

inline void expect_norm_parameter(const char* norm, const char* name, const Var& x, const Var& parameter,
                                  const Site& site) {
  expect_same_kind(norm, x, parameter, site);
  expect(parameter.shape() == Shape{x.dim(-1)}, site, "{}: the last axis of x is {}, but {} has {}", norm, x.dim(-1),
         name, parameter.rank() == 1 ? fmt::format("{}", parameter.dim(0)) : to_string(parameter.shape()));
}

// The one number of an operation that has one for all rows: [] or [1].
inline void expect_norm_scalar(const char* norm, const char* name, const Var& x, const Var& scalar, const Site& site) {
  expect_same_kind(norm, x, scalar, site);
  expect(scalar.shape() == Shape{} || scalar.shape() == Shape{1}, site, "{}: {} must be one number, [] or [1], got {}",
         norm, name, scalar.shape());
}

// An operation's inputs, some of which may be absent.
class InputList {
 public:
  // The input's number, or -1 for an undefined one.
  std::int8_t add(const Var& input) {
    if (!input.defined()) return -1;
    inputs_[count_] = input;
    return static_cast<std::int8_t>(count_++);
  }
  std::span<const Var> all() const { return {inputs_.data(), count_}; }

 private:
  std::array<Var, Node::kMaxInputs> inputs_;
  std::size_t count_ = 0;
};

inline Tensor value_or_none(const Var& var) { return var.defined() ? var.value() : Tensor(); }

// The input of that number in a Pullback or Pushforward, or an undefined tensor for a negative number.
template <class Part>
Tensor optional_input(const Part& part, int number) {
  return number < 0 ? Tensor() : part.input(static_cast<std::size_t>(number));
}

inline Destination optional_into(Pullback& back, int number) {
  return number < 0 ? Destination{} : back.into(static_cast<std::size_t>(number));
}

// A tangent of gamma or beta beside every row: [H] or [K, H] -> the output's shape.
inline Tensor along_rows(const Pushforward& push, const Tensor& tangent) {
  Shape aligned = push.output().shape();
  for (int axis = 0; axis < aligned.rank() - 1; ++axis) aligned = aligned.with_axis(axis, 1);
  return broadcast_to(reshape(tangent, push.shaped(aligned)), push.shaped(push.output().shape()));
}

// A tangent of the one number beside every element: [], [1] or a leading axis of K -> the output's shape.
inline Tensor along_all(const Pushforward& push, const Tensor& tangent) {
  const Shape& to = push.output().shape();
  Shape aligned = to;
  for (int axis = 0; axis < to.rank(); ++axis) aligned = aligned.with_axis(axis, 1);
  return broadcast_to(reshape(tangent, push.shaped(aligned)), push.shaped(to));
}

}  // namespace jnorm
