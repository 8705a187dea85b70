// Rows of a table, chosen by token.
//
//   y_r = table[token_r]      dtable[v] = sum of dy_r over the rows r with token_r = v

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/one_hot.hpp>
#include <jnorm/autograd/site.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

struct Embedding : Fused<Embedding> {
  static constexpr Description kDescription{.name = "embedding",
                                            .inputs = "table tokens",
                                            .formula = "y = table[token]",
                                            .saved_inputs = 0b10,
                                            .row_inputs = 0b10};

  void vjp(Pullback& back) const override {
    if (back.wants(0)) {
      back.output().device().kernels().embedding_dtable(back.cotangent(), back.input(1), back.into(0));
    }
  }

  // The table's tangent [K, V, H] seen as K V rows: copy k reads its own V of them.
  void jvp(Pushforward& push) const override {
    if (!push.has(0)) return;
    const Shape& shape = push.output().shape();
    const Tensor one_hot_rows = one_hot(push.input(1), push.input(0).dim(0), push.output().dtype());
    push.give(reshape(matmul(one_hot_rows, push.tangent(0)), push.shaped(shape)));
  }

  Var composed(std::span<const Var> inputs) const override {
    const Var& table = inputs[0];
    const Tensor& tokens = inputs[1].value();
    const Var rows = table.tape().constant(one_hot(tokens, table.dim(0), table.dtype()));
    return reshape(matmul(rows, table), tokens.shape().with_trailing(table.dim(1)));
  }
};

}  // namespace

Tensor one_hot(const Tensor& indices, Index classes, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(checked_product(indices.size(), classes)));
  const std::int32_t* const index = indices.data<std::int32_t>();
  for (Index row = 0; row < indices.size(); ++row) {
    values[static_cast<std::size_t>(row_major_offset(row, classes, index[row]))] = 1.0;
  }
  return tensor({indices.size(), classes}, values, dtype);
}

Var embedding(const Var& table, const Tensor& tokens, SourceLine line) {
  const Site site = site_of("embedding", table, line);
  expect_numbers("embedding", table, site);
  expect(table.rank() == 2, site, "embedding: the table must be [V, H], got {}", table.shape());
  expect(tokens.defined() && tokens.dtype() == DType::int32, site, "embedding: tokens must be int32, got {}",
         tokens.defined() ? to_string(tokens.dtype()) : "an undefined tensor");
  const std::int32_t* const token = tokens.data<std::int32_t>();
  for (Index i = 0; i < tokens.size(); ++i) {
    expect(token[i] >= 0 && token[i] < table.dim(0), site, "embedding: token {} at position {} is outside [0, {})",
           token[i], i, table.dim(0));
  }
  const Shape shape = tokens.shape().with_trailing(table.dim(1));  // [...] -> [..., H]
  Tensor y = Tensor::uninitialized(shape, table.dtype(), table.value().device());
  y.device().kernels().embedding(table.value(), tokens, y);
  const Var recorded_tokens = table.tape().constant(tokens, "tokens", line);
  return table.tape().record(Embedding{}, {table, recorded_tokens}, std::move(y), {}, line);
}

}  // namespace jnorm
