#pragma once

#include <memory>

#include <jnorm/layers/dropout.hpp>
#include <jnorm/layers/norm.hpp>
#include <jnorm/layers/placement.hpp>

namespace jnorm {

// A branch F around which x passes, joined as a ResidualRule says: x + F(N(x)), N(x + F(x)), ... [..., dim] -> the
// same, or [..., 2 dim] for a rule with two streams. Children: branch; norm, the first one on the way; output_norm, if
// there is a second one; dropout, of what the branch adds, if there is any. Parameter: lambda, if the rule learns one.
class ResidualSublayer : public Layer {
 public:
  // Throws Error(argument) on a rule that contradicts itself.
  ResidualSublayer(const ResidualRule& rule, const NormConfig& norm, std::unique_ptr<Layer> branch,
                   double dropout = 0.0);

  const ResidualRule& rule() const { return rule_; }

 protected:
  Var forward(const Var& x, const Pass& pass, SourceLine line) override;

 private:
  struct Joined {
    Var y;
    Var added;  // what the branch adds to the stream
  };
  Joined join(const Var& x, const Pass& pass);
  Var added_by_branch(const Var& x, const Pass& pass);

  ResidualRule rule_;
  Index dim_;
  Layer* input_norm_ = nullptr;
  Layer* output_norm_ = nullptr;  // N'' or N'
  Layer* dropout_ = nullptr;
  Parameter* lambda_ = nullptr;
  Layer* branch_ = nullptr;
};

}  // namespace jnorm
