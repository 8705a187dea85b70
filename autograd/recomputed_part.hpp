#pragma once

#include <functional>
#include <span>
#include <vector>

#include <jnorm/autograd/var.hpp>

namespace jnorm {

// A stretch of a tape whose values were dropped after the forward, and the function that makes them again. Private to
// the tape; recompute() in <jnorm/autograd/recompute.hpp> is the way to make one.
struct RecomputedPart {
  NodeIndex first = 0;
  NodeIndex end = 0;
  NodeIndex output = 0;
  std::vector<NodeIndex> inputs;
  std::function<Var(std::span<const Var>)> function;
  SourceLine line;
  int sweeps = 0;  // that read its values now
};

}  // namespace jnorm
