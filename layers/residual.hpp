#pragma once

#include <memory>

#include <jnorm/layers/module.hpp>
#include <jnorm/layers/placement.hpp>

namespace jnorm {

// A branch F around which x passes unchanged, and a norm N where the placement says: x + F(N(x)), or N(x + F(x)).
// Children: norm, branch.
class ResidualSublayer : public Layer {
 public:
  ResidualSublayer(const Placement& placement, std::unique_ptr<Layer> norm, std::unique_ptr<Layer> branch);

 protected:
  Var forward(const Var& x, SourceLine line) override;

 private:
  Placement placement_;
  Layer& norm_;
  Layer& branch_;
};

}  // namespace jnorm
