#include <jnorm/layers/embedding.hpp>

#include <optional>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

Tensor starting_table(Index count, Index dim, double deviation, Rng& rng) {
  expect(count > 0 && dim > 0, "embedding: expected positive sizes, got a table of {} x {}", count, dim);
  expect(deviation >= 0.0, "embedding: the standard deviation must not be negative, but is {}", deviation);
  return affine(randn({count, dim}, rng), deviation, 0.0);
}

}  // namespace

Embedding::Embedding(Index count, Index dim, double deviation, Rng& rng)
    : table_(add_parameter("table", starting_table(count, dim, deviation, rng))) {}

Var Embedding::operator()(Tape& tape, const Tensor& tokens, SourceLine line) {
  std::optional<ModuleScope> scope;
  if (!name().empty()) scope.emplace(tape, name());
  return embedding(tape.parameter(table_, line), tokens, line);
}

}  // namespace jnorm
