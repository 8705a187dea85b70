#pragma once

// Collects the catalogue's cases, family by family, and draws their inputs. Private.

#include <jnorm/autograd/catalogue.hpp>
#include <jnorm/core/random.hpp>

namespace jnorm::catalogue {

using Vars = std::span<const Var>;
using Tensors = std::span<const Tensor>;

class CaseList {
 public:
  explicit CaseList(std::uint64_t seed) : seed_(seed), rng_(seed) {}

  // Each family draws from a stream of its own, so that a case more in one changes no other.
  void begin(std::string_view family) { rng_ = Rng(seed_).split(family); }

  void add(std::string operation, std::string variant, DifferentiableFunction function, std::vector<Tensor> inputs) {
    cases_.push_back({std::move(operation), std::move(variant), std::move(function), std::move(inputs)});
  }
  // The case that was added last is of a norm with this Jacobian.
  void with_closed_form(std::function<NormJacobian(std::span<const Tensor>)> closed_form) {
    cases_.back().closed_form = std::move(closed_form);
  }

  // One case a shape, for an operation of one operand.
  void add_unary(const char* operation, Var (*function)(const Var&, SourceLine), Tensor (CaseList::*draw)(const Shape&),
                 std::initializer_list<Shape> shapes = {{3, 4}, {1}, {}, {0, 3}}) {
    for (const Shape& shape : shapes) {
      add(operation, to_string(shape), [function](Vars x) { return function(x[0], SourceLine::here()); },
          {(this->*draw)(shape)});
    }
  }

  Tensor normal(const Shape& shape) { return randn(shape, rng_, DType::float64); }
  // Between 0.5 and 2.
  Tensor positive(const Shape& shape) { return rand_uniform(shape, rng_, 0.5, 2.0, DType::float64); }
  // Of either sign, 0.5 to 2 in size.
  Tensor off_zero(const Shape& shape) { return multiply(sign(normal(shape)), positive(shape)); }
  // Sizes that differ by 0.25 at least, in random order and of either sign: no step of a difference changes which one
  // is the largest.
  Tensor apart(const Shape& shape) {
    std::vector<double> values(static_cast<std::size_t>(shape.size()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.5 + 0.25 * static_cast<double>(i);
    for (std::size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1], values[static_cast<std::size_t>(rng_.below(static_cast<Index>(i)))]);
    }
    return multiply(sign(normal(shape)), tensor(shape, values, DType::float64));
  }
  Tensor tokens(const Shape& shape, Index below) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(shape.size()));
    for (auto& value : values) value = static_cast<std::int32_t>(rng_.below(below));
    return indices(shape, values);
  }

  std::vector<OperationCase> take() { return std::move(cases_); }

 private:
  std::uint64_t seed_;
  Rng rng_;
  std::vector<OperationCase> cases_;
};

void add_arithmetic(CaseList& list);
void add_functions(CaseList& list);
void add_selections(CaseList& list);
void add_shapes(CaseList& list);
void add_reductions(CaseList& list);
void add_products(CaseList& list);
void add_embeddings(CaseList& list);
void add_norms(CaseList& list);
void add_losses(CaseList& list);
void add_attention(CaseList& list);

}  // namespace jnorm::catalogue
