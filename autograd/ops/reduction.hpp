#pragma once

// Operations that take axes away.

#include <initializer_list>

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// Each goes over all axes (a scalar results) or over the named ones, negative ones counted from the end. With Keep::yes
// they stay with size 1. Throws Error(argument) on an axis out of range or named twice.
enum class Keep : bool { no, yes };

// Over no elements a sum is 0 and a mean NaN.
Var sum(const Var& x, SourceLine line = SourceLine::here());
Var sum(const Var& x, std::initializer_list<int> axes, Keep keep = Keep::no, SourceLine line = SourceLine::here());
Var sum_axes(const Var& x, std::uint32_t axes, SourceLine line = SourceLine::here());  // one bit an axis; not kept
Var mean(const Var& x, SourceLine line = SourceLine::here());
Var mean(const Var& x, std::initializer_list<int> axes, Keep keep = Keep::no, SourceLine line = SourceLine::here());

// The gradient is shared equally among the elements that are the largest, or smallest. A NaN wins, and its gradient is
// NaN. Over no elements: Error(argument).
Var max(const Var& x, SourceLine line = SourceLine::here());
Var max(const Var& x, std::initializer_list<int> axes, Keep keep = Keep::no, SourceLine line = SourceLine::here());
Var min(const Var& x, SourceLine line = SourceLine::here());
Var min(const Var& x, std::initializer_list<int> axes, Keep keep = Keep::no, SourceLine line = SourceLine::here());

// sum (x - mean)^2 / (n - correction), from the mean first and the differences then: biased with correction 0, unbiased
// with 1. NaN unless n > correction. The standard deviation is its root, with a gradient of 0 where it is 0.
Var variance(const Var& x, int correction = 0, SourceLine line = SourceLine::here());
Var variance(const Var& x, std::initializer_list<int> axes, int correction = 0, Keep keep = Keep::no,
             SourceLine line = SourceLine::here());
Var standard_deviation(const Var& x, int correction = 0, SourceLine line = SourceLine::here());
Var standard_deviation(const Var& x, std::initializer_list<int> axes, int correction = 0, Keep keep = Keep::no,
                       SourceLine line = SourceLine::here());

// ln sum e^x, without overflow. Where all are -inf (or there are none) it is -inf, with a gradient of 0; where one is
// +inf it is +inf, with a gradient of NaN there.
Var logsumexp(const Var& x, SourceLine line = SourceLine::here());
Var logsumexp(const Var& x, std::initializer_list<int> axes, Keep keep = Keep::no,
              SourceLine line = SourceLine::here());

// sum |x|, sqrt(sum x^2) and max |x|. At x = 0 the gradient of the first two is 0.
Var l1_norm(const Var& x, SourceLine line = SourceLine::here());
Var l1_norm(const Var& x, std::initializer_list<int> axes, Keep keep = Keep::no, SourceLine line = SourceLine::here());
Var l2_norm(const Var& x, SourceLine line = SourceLine::here());
Var l2_norm(const Var& x, std::initializer_list<int> axes, Keep keep = Keep::no, SourceLine line = SourceLine::here());
Var max_norm(const Var& x, SourceLine line = SourceLine::here());
Var max_norm(const Var& x, std::initializer_list<int> axes, Keep keep = Keep::no, SourceLine line = SourceLine::here());

}  // namespace jnorm
