#pragma once

#include <optional>
#include <string>
#include <utility>

#include <jnorm/autograd/norm_jacobian.hpp>
#include <jnorm/autograd/tape.hpp>
#include <jnorm/layers/transformer.hpp>

namespace jnorm {

// A norm's Jacobian J_N in closed form, [N, N]: structured, or dense where the structure isn't NormJacobian's.
class NormMap {
 public:
  // NOLINTBEGIN(google-explicit-constructor): either is a norm's Jacobian
  NormMap(NormJacobian structured) : structured_(std::move(structured)) {}
  NormMap(Tensor dense) : dense_(std::move(dense)) {}
  // NOLINTEND(google-explicit-constructor)

  Tensor before(const Tensor& matrix) const;        // J_N M
  Tensor after(const Tensor& matrix) const;         // M J_N
  double bound() const;                             // no singular value is greater, nor is what they are computed from
  std::pair<double, double> extreme_gains() const;  // the largest and the smallest singular value

 private:
  std::optional<NormJacobian> structured_;
  Tensor dense_;
};

// A sublayer's Jacobians, put together from those of its parts.
struct ComposedSublayer {
  Tensor jacobian;        // by its input
  Tensor of_block_input;  // by what its block adds to the sum, if its rule does
  // How many times greater the terms are than what is left of them. Rounding is relative to the terms. It is 1 or a
  // little more, unless a norm that the whole stream goes through takes away nearly all, as over one or two features.
  double cancellation = 1.0;
};

// The parts of the Jacobians of one recorded forward of a model in evaluation mode. It refers to both.
class JacobianParts {
 public:
  JacobianParts(const Transformer& model, Tape& tape) : config_(model.config()), state_(model.state()), tape_(tape) {}

  NormMap norm(const std::string& path);  // at what went into it, as "blocks.3.ffn.norm"
  // Of a residual sublayer, "blocks.3.ffn", whose branch has this Jacobian.
  ComposedSublayer compose(const std::string& path, const ResidualRule& rule, const Tensor& branch);

 private:
  Tensor value(const std::string& path) const;  // of a parameter or a buffer; undefined if the model has none there

  TransformerConfig config_;
  NamedTensors state_;
  Tape& tape_;
};

}  // namespace jnorm
