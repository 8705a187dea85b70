#pragma once

// Operations that take axes away.

#include <initializer_list>

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// Sums and means over all axes (a scalar results) or over the named ones. With Keep::yes they stay with size 1.
enum class Keep : bool { no, yes };
Var sum(const Var& x, SourceLine line = SourceLine::here());
Var sum(const Var& x, std::initializer_list<int> axes, Keep keep = Keep::no, SourceLine line = SourceLine::here());
Var sum_axes(const Var& x, std::uint32_t axes, SourceLine line = SourceLine::here());  // one bit an axis; not kept
Var mean(const Var& x, SourceLine line = SourceLine::here());
Var mean(const Var& x, std::initializer_list<int> axes, Keep keep = Keep::no, SourceLine line = SourceLine::here());

}  // namespace jnorm
