// Rows of a table, chosen by token.
//
//   y_r = table[token_r]      dtable[v] = sum of dy_r over the rows r with token_r = v

#include <jnorm/autograd/ops.hpp>
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

  void jvp(Pushforward& push) const override {
    if (!push.has(0)) return;
    push.give(
        reshape(index_select(push.tangent(0), push.axis(0), flat(push.input(1))), push.shaped(push.output().shape())));
  }

  Var composed(std::span<const Var> inputs) const override {
    const Var& table = inputs[0];
    const Tensor& tokens = inputs[1].value();
    return reshape(index_select(table, 0, flat(tokens)), tokens.shape().with_trailing(table.dim(1)));
  }

 private:
  static Tensor flat(const Tensor& tokens) { return tokens.reshape({tokens.size()}); }
};

}  // namespace

Var embedding(const Var& table, const Tensor& tokens, SourceLine line) {
  const Site site = site_of("embedding", table, line);
  expect_numbers("embedding", table, site);
  expect(table.rank() == 2, site, "embedding: the table must be [V, H], got {}", table.shape());
  expect(tokens.defined() && tokens.dtype() == DType::int32, site, "embedding: tokens must be int32, got {}",
         tokens.defined() ? to_string(tokens.dtype()) : "an undefined tensor");
  const Tensor here = tokens.on_host();
  const std::int32_t* const token = here.data<std::int32_t>();
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

Var embedding(const Var& table, const Tensor& tokens, const EmbeddingOptions& options, SourceLine line) {
  const Var y = embedding(table, tokens, line);
  if (!options.padding) return y;
  const Index padding = *options.padding;
  expect(padding >= 0 && padding < table.dim(0), site_of("embedding", table, line),
         "embedding: the padding token {} is outside [0, {})", padding, table.dim(0));
  const Tensor is_padding = equal(tokens, static_cast<double>(padding)).reshape(tokens.shape().with_trailing(1));
  return where(is_padding, Operand(detach(y, line), line), Operand(y, line));
}

}  // namespace jnorm
