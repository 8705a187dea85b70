// Whole models: dense Jacobians, which carry only live rows, against one cotangent at a time.

#include <doctest/doctest.h>

#include <jnorm/autograd/linear_map.hpp>
#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/matrix_measures.hpp>
#include <jnorm/layers/transformer.hpp>

using namespace jnorm;

namespace {

TransformerConfig small(const Placement& placement, NormKind norm) {
  return {.vocabulary = 7,
          .layers = 2,
          .dim = 8,
          .heads = 2,
          .ffn = 12,
          .context = 5,
          .placement = placement,
          .norm = norm,
          .activation = Activation::gelu,
          .dtype = DType::float64};
}

Tensor row_by_row(const Var& y, const Var& x) {
  const LinearMap J = linearize(y, x);
  std::vector<double> rows;
  for (Index i = 0; i < J.rows(); ++i) {
    std::vector<double> cotangent(static_cast<std::size_t>(J.rows()));
    cotangent[static_cast<std::size_t>(i)] = 1.0;
    const std::vector<double> row = J.apply_transposed(tensor(y.shape(), cotangent, DType::float64)).values();
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return tensor({J.rows(), J.columns()}, rows, DType::float64);
}

Tensor tokens(Index batch) {
  std::vector<std::int32_t> values;
  for (std::int32_t i = 0; i < batch * 5; ++i) values.push_back(i * i % 7);
  return indices({batch, 5}, values);
}

}  // namespace

TEST_CASE("Transformer: its dense Jacobians are those of one cotangent at a time") {
  for (const Placement* placement : Placement::all()) {
    for (const NormKind norm : {NormKind::layer, NormKind::rms}) {
      for (const Index batch : {1, 3}) {
        CAPTURE(placement->name);
        CAPTURE(batch);
        Transformer model(small(*placement, norm), Rng(1));
        Tape tape;
        const Var x = model.embed(tape, tokens(batch));
        const Var last = model.stack(x);
        const Var logits = model.unembed(last);
        const Var block = tape.output("blocks.0");
        const Var table = tape.parameter(*model.named_parameters().front().second);
        // Sums of some hundred terms in float64.
        for (const auto& [y, from] : {std::pair{last, x}, {last, block}, {logits, x}, {logits, table}}) {
          CHECK(relative_distance(jacobian(y, from), row_by_row(y, from)) < 1e-13);
        }
      }
    }
  }
}
