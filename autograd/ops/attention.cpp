// Causal multi-head attention. Within a head of D columns, over T positions, with S = q k^T / sqrt(D) on and below the
// diagonal:
//
//   [ATT.1]  P = softmax of S's rows        y = P v
//   [ATT.2]  dv = P^T dy     dP = dy v^T     dS = P * (dP - rowsum(P * dP))
//   [ATT.3]  dq = dS k / sqrt(D)             dk = dS^T q / sqrt(D)
//   [ATT.4]  S_dot = (q_dot k^T + q k_dot^T) / sqrt(D)
//            y_dot = (P * (S_dot - rowsum(P * S_dot))) v + P v_dot
//
// Saves logsumexp of S's rows; P is recomputed from it.

#include <cmath>
#include <limits>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/site.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

// Views of [B, T, H] by head, for tensors and recorded values; `lead` counts the axes before B.
template <class T>
T split_heads(const T& x, Index heads, int lead) {  // [(K,) B, T, H] -> [(K,) B, heads, T, D]
  const Index width = x.shape().last();
  if (lead == 0) {
    const T split = reshape(x, {x.shape()[0], x.shape()[1], heads, width / heads});
    constexpr int order[] = {0, 2, 1, 3};
    return permute(split, std::span<const int>(order));
  }
  const T split = reshape(x, {x.shape()[0], x.shape()[1], x.shape()[2], heads, width / heads});
  constexpr int order[] = {0, 1, 3, 2, 4};
  return permute(split, std::span<const int>(order));
}

template <class T>
T join_heads(const T& x, const Shape& shape, int lead) {  // [(K,) B, heads, T, D] -> [(K,) B, T, H]
  constexpr int plain[] = {0, 2, 1, 3};
  constexpr int led[] = {0, 1, 3, 2, 4};
  return reshape(lead == 0 ? permute(x, std::span<const int>(plain)) : permute(x, std::span<const int>(led)), shape);
}

// [T, T] with `below` on and below the diagonal and `above` above it.
Tensor causal_pattern(Index length, double below, double above, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(length * length), above);
  for (Index row = 0; row < length; ++row) {
    for (Index column = 0; column <= row; ++column) {
      values[static_cast<std::size_t>(row_major_offset(row, length, column))] = below;
    }
  }
  return tensor({length, length}, values, dtype);
}

struct CausalAttention : Fused<CausalAttention> {
  static constexpr Description kDescription{.name = "causal_attention",
                                            .inputs = "q k v",
                                            .formula = "y = softmax(q k^T / sqrt(D), causal) v",
                                            .source = "Vaswani et al. 2017",
                                            .saved_inputs = 0b111,
                                            .saves_output = true,
                                            .row_inputs = 0b001,
                                            .earlier_inputs = 0b110,
                                            .row_saved = 0b1};
  Index heads;
  explicit CausalAttention(Index count) : heads(count) {}

  double scale(const Tensor& q) const { return std::sqrt(static_cast<double>(heads) / static_cast<double>(q.dim(-1))); }

  void vjp(Pullback& back) const override {
    const Destination dq = back.into(0);
    const Destination dk = back.into(1);
    const Destination dv = back.into(2);
    back.output().device().kernels().causal_attention_backward(back.cotangent(), back.input(0), back.input(1),
                                                               back.input(2), back.output(), back.saved(0), heads, dq,
                                                               dk, dv);  // [ATT.2], [ATT.3]
  }

  void jvp(Pushforward& push) const override {
    const Index length = push.input(0).dim(1);
    const DType dtype = push.output().dtype();
    const Tensor q = split_heads(push.input(0), heads, 0);
    const Tensor k = split_heads(push.input(1), heads, 0);
    const Tensor v = split_heads(push.input(2), heads, 0);
    const int lead = push.axis(0);
    const auto tangent = [&](std::size_t i) { return split_heads(push.tangent(i), heads, lead); };

    const Tensor scores = affine(matmul(q, k, false, true), scale(push.input(0)), 0.0);  // [B, heads, T, T]
    Tensor p = Tensor::uninitialized(scores.shape(), dtype, scores.device());
    const Tensor hidden = causal_pattern(length, 0.0, -std::numeric_limits<double>::infinity(), dtype);
    scores.device().kernels().softmax(add(scores, hidden), p);

    Tensor scores_dot;  // [ATT.4]
    const auto add_scores = [&](const Tensor& term) {
      scores_dot = scores_dot.defined() ? add(scores_dot, term) : term;
    };
    if (push.has(0)) add_scores(matmul(tangent(0), k, false, true));
    if (push.has(1)) add_scores(matmul(q, tangent(1), false, true));
    Tensor y_dot;
    if (scores_dot.defined()) {
      scores_dot = affine(scores_dot, scale(push.input(0)), 0.0);
      Tensor p_dot = Tensor::uninitialized(scores_dot.shape(), dtype, scores.device());
      scores.device().kernels().softmax_dx(scores_dot, p, {.tensor = p_dot});
      y_dot = matmul(p_dot, v);
    }
    if (push.has(2)) {
      const Tensor term = matmul(p, tangent(2));
      y_dot = y_dot.defined() ? add(y_dot, term) : term;
    }
    if (y_dot.defined()) push.give(join_heads(y_dot, push.shaped(push.output().shape()), lead));
  }

  Var composed(std::span<const Var> inputs) const override {
    const Var q = split_heads(inputs[0], heads, 0);
    const Var k = split_heads(inputs[1], heads, 0);
    const Var v = split_heads(inputs[2], heads, 0);
    const Index length = inputs[0].dim(1);
    const Tensor hidden = causal_pattern(length, 0.0, -std::numeric_limits<double>::infinity(), q.dtype());
    const Var scores = matmul(q, k, false, true) * scale(inputs[0].value()) + hidden;
    return join_heads(matmul(softmax(scores), v), inputs[0].shape(), 0);
  }
};

}  // namespace

Var causal_attention(const Var& q, const Var& k, const Var& v, Index heads, SourceLine line) {
  const Site site{q.tape(), line};
  expect_same_kind("causal_attention", q, k, site);
  expect_same_kind("causal_attention", q, v, site);
  expect(q.rank() == 3 && k.shape() == q.shape() && v.shape() == q.shape(), site,
         "causal_attention: q, k and v must share one shape [batch, time, width], got {}, {} and {}", q.shape(),
         k.shape(), v.shape());
  expect(heads > 0, site, "causal_attention: expected a positive number of heads, got {}", heads);
  expect(q.dim(-1) % heads == 0, site, "causal_attention: {} heads don't divide the width {}", heads, q.dim(-1));
  const Device device = q.value().device();
  Tensor y = Tensor::uninitialized(q.shape(), q.dtype(), device);
  Tensor lse = Tensor::uninitialized({q.dim(0), heads, q.dim(1)}, q.dtype(), device);
  device.kernels().causal_attention(q.value(), k.value(), v.value(), heads, y, lse);
  return q.tape().record(CausalAttention(heads), {q, k, v}, std::move(y), {std::move(lse)}, line);
}

}  // namespace jnorm
