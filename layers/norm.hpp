#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/layers/module.hpp>

namespace jnorm {

enum class NormKind { layer, rms, none };

std::string to_string(NormKind kind);
NormKind norm_kind_from_string(std::string_view name);  // throws Error(argument) that lists the names

// Norms over the last axis, [..., dim] -> the same. gamma starts at 1 and beta at 0. The constructors throw
// Error(argument) unless dim is positive and eps is finite and not negative.
class LayerNorm : public Layer {
 public:
  explicit LayerNorm(Index dim, double eps = kNormEps);

 protected:
  Var forward(const Var& x, SourceLine line) override;

 private:
  Parameter& gamma_;
  Parameter& beta_;
  double eps_;
};

class RmsNorm : public Layer {
 public:
  explicit RmsNorm(Index dim, double eps = kNormEps);

 protected:
  Var forward(const Var& x, SourceLine line) override;

 private:
  Parameter& gamma_;
  double eps_;
};

// What stands where a norm is left out.
class Identity : public Layer {
 protected:
  Var forward(const Var& x, SourceLine /*line*/) override { return x; }
};

std::unique_ptr<Layer> make_norm(NormKind kind, Index dim, double eps = kNormEps);

}  // namespace jnorm
