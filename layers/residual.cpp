#include <jnorm/layers/residual.hpp>

#include <jnorm/autograd/ops.hpp>

namespace jnorm {

ResidualSublayer::ResidualSublayer(const Placement& placement, std::unique_ptr<Layer> norm,
                                   std::unique_ptr<Layer> branch)
    : placement_(placement), norm_(add("norm", std::move(norm))), branch_(add("branch", std::move(branch))) {}

Var ResidualSublayer::forward(const Var& x, SourceLine /*line*/) {
  const Var y = x + branch_(placement_.norm_before_branch ? norm_(x) : x);
  return placement_.norm_after_sum ? norm_(y) : y;
}

}  // namespace jnorm
