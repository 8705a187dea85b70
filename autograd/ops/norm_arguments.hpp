#pragma once

// What the norms have in common: checks of their arguments, and parameters that may be absent. Private.

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/site.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

inline void expect_norm_arguments(const char* norm, const Var& x, double eps, const Site& site) {
  expect(x.rank() >= 1, site, "{}: expected at least one axis, got a scalar", norm);
  expect(eps >= 0.0, site, "{}: eps must not be negative, but is {}", norm, eps);  // NaN isn't >= 0 either
}

inline void expect_norm_parameter(const char* norm, const char* name, const Var& x, const Var& parameter,
                                  const Site& site) {
  expect_same_kind(norm, x, parameter, site);
  expect(parameter.shape() == Shape{x.dim(-1)}, site, "{}: the last axis of x is {}, but {} has {}", norm, x.dim(-1),
         name, parameter.rank() == 1 ? fmt::format("{}", parameter.dim(0)) : to_string(parameter.shape()));
}

// The input of that number, or an undefined tensor for a negative number.
inline Tensor optional_input(const Pullback& back, int number) {
  return number < 0 ? Tensor() : back.input(static_cast<std::size_t>(number));
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

}  // namespace jnorm
