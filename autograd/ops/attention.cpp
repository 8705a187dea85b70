// Multi-head attention. Within a head of D columns, over Tq queries and Tk keys, where the mask M says which pairs
// meet:
//
//   [ATT.1]  S = scale q k^T     P = softmax of S's rows where M, 0 elsewhere     y = P v
//   [ATT.2]  dv = P^T dy         dP = dy v^T     dS = P * (dP - rowsum(P * dP))
//   [ATT.3]  dq = scale dS k     dk = scale dS^T q
//   [ATT.4]  S_dot = scale (q_dot k^T + q k_dot^T)
//            y_dot = (P * (S_dot - rowsum(P * S_dot))) v + P v_dot
//
// Where several heads of queries read one of keys and values, dk and dv are sums over these heads. Saves logsumexp of
// S's rows; P is recomputed from it.

#include <algorithm>
#include <cmath>
#include <limits>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/masked.hpp>
#include <jnorm/autograd/ops/record.hpp>
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

// Each head of the keys or values as often as heads of queries read it: [..., key heads, T, D] -> [..., heads, T, D]
template <class T>
T repeat_heads(const T& x, Index heads) {
  const Index key_heads = x.shape()[-3];
  if (key_heads == heads) return x;
  std::vector<std::int32_t> read;
  for (Index head = 0; head < heads; ++head) read.push_back(static_cast<std::int32_t>(head / (heads / key_heads)));
  return index_select(x, x.rank() - 3, indices({heads}, read).to(value_of(x).device()));
}

// The pairs that meet, 1 or 0: [Tq, Tk] for all heads, or [B, heads, Tq, Tk] with a mask [B or 1, heads or 1, Tq or 1,
// Tk].
Tensor pairs_that_meet(const AttentionSettings& settings, const Tensor& q, const Tensor& k, const Tensor& mask) {
  const Index queries = q.dim(1), keys = k.dim(1);
  const Index lead = settings.causal ? keys - queries : keys;
  Tensor meet = mask.defined() ? broadcast_to(mask.on_host(), {q.dim(0), settings.heads, queries, keys}).clone()
                               : ones({queries, keys}, DType::int32);
  auto* const pair = meet.output_data<std::int32_t>();
  for (Index row = 0; row < meet.rows(); ++row) {
    const Index seen = std::clamp(row % queries + lead + 1, Index{0}, keys);
    std::fill(pair + row * keys + seen, pair + (row + 1) * keys, 0);
  }
  return meet.to(q.device());
}

// For each query the largest score of a pair that meets, -inf if none does: a shift that keeps exp from overflowing, so
// it takes no part in derivatives. [..., Tq, 1]
Tensor largest_scores(const Tensor& scores, const Tensor& meet) {
  const std::vector<double> values = scores.values();
  const Tensor here = meet.on_host();
  const auto* const pair = here.data<std::int32_t>();
  const auto keys = static_cast<std::size_t>(scores.row_length());
  std::vector<double> largest;
  for (std::size_t begin = 0; begin < values.size(); begin += keys) {
    double found = -std::numeric_limits<double>::infinity();
    for (std::size_t i = begin; i < begin + keys; ++i) {
      if (pair[i % static_cast<std::size_t>(meet.size())] != 0) found = std::max(found, values[i]);
    }
    largest.push_back(found);
  }
  return tensor(scores.shape().with_axis(-1, keys == 0 ? 0 : 1), largest, scores.dtype()).to(scores.device());
}

// The mask is the input after q, k and v, where there is one.
template <class Self>
struct AnyAttention : Fused<Self> {
  AttentionSettings settings;
  explicit AnyAttention(const AttentionSettings& chosen) : settings(chosen) {}
  std::optional<double> setting(std::string_view name) const override {
    return number_if(name == "causal", settings.causal ? 1.0 : 0.0);
  }

  void vjp(Pullback& back) const override {
    const Destination dq = back.into(0);
    const Destination dk = back.into(1);
    const Destination dv = back.into(2);
    back.output().device().kernels().attention_backward(settings, back.cotangent(), back.input(0), back.input(1),
                                                        back.input(2), back.has_input(3) ? back.input(3) : Tensor(),
                                                        back.output(), back.saved(0), dq, dk, dv);  // [ATT.2], [ATT.3]
  }

  void jvp(Pushforward& push) const override {
    const Tensor mask = push.has_input(3) ? push.input(3) : Tensor();
    const Tensor meet = pairs_that_meet(settings, push.input(0), push.input(1), mask);
    const Tensor q = queries(push.input(0), 0), k = keys(push.input(1), 0), v = keys(push.input(2), 0);
    const Tensor p = probabilities(q, k, meet, push.saved(0));
    const auto give = [&](const Tensor& y_dot) {
      push.give(join_heads(y_dot, push.shaped(push.output().shape()), push.axis(0)));
    };
    const auto give_scores = [&](const Tensor& scores_dot) {
      Tensor p_dot = Tensor::uninitialized(scores_dot.shape(), p.dtype(), p.device());
      p.device().kernels().softmax_dx(affine(scores_dot, settings.scale, 0.0), p, {.tensor = p_dot});
      give(masked_matmul(p_dot, v, meet));
    };
    const int lead = push.axis(0);
    if (push.has(0)) give_scores(sampled_matmul(queries(push.tangent(0), lead), k, meet));
    if (push.has(1)) give_scores(sampled_matmul(q, keys(push.tangent(1), lead), meet));
    if (push.has(2)) give(masked_matmul(p, keys(push.tangent(2), lead), meet));  // [ATT.4]
  }

  // P from the logsumexp that the forward saved, with zeros for the pairs that don't meet.
  Tensor probabilities(const Tensor& q, const Tensor& k, const Tensor& meet, const Tensor& lse) const {
    const Tensor scores = affine(sampled_matmul(q, k, meet), settings.scale, 0.0);  // [B, heads, Tq, Tk]
    const Tensor log_sums = broadcast_to(reshape(lse.to(scores.dtype()), lse.shape().with_trailing(1)), scores.shape());
    return select(exp(subtract(scores, log_sums)), meet);
  }

  Var composed(std::span<const Var> inputs) const override {
    const Tensor mask = inputs.size() > 3 ? inputs[3].value() : Tensor();
    const Tensor meet = pairs_that_meet(settings, inputs[0].value(), inputs[1].value(), mask);
    const Var q = queries(inputs[0], 0), k = keys(inputs[1], 0), v = keys(inputs[2], 0);
    const Var scores = sampled_matmul(q, k, meet) * settings.scale;  // [B, heads, Tq, Tk]
    // Infinite or NaN where nothing meets, but each derivative of the three masked operations selects again.
    const Var e = select(exp(scores - largest_scores(scores.value(), meet)), meet);
    const Var p = e / sum(e, {-1}, Keep::yes);
    const Shape shape = inputs[0].shape().with_axis(-1, settings.heads * v.dim(-1));
    return join_heads(masked_matmul(p, v, meet), shape, 0);
  }

 private:
  // Of q, and of k or v, with the leading axes of an input or of a tangent: [(K,) B, T, H] -> [(K,) B, heads, T, D]
  template <class T>
  T queries(const T& q, int lead) const {
    return split_heads(q, settings.heads, lead);
  }
  template <class T>
  T keys(const T& k, int lead) const {
    return repeat_heads(split_heads(k, settings.key_heads, lead), settings.heads);
  }
};

struct Attention : AnyAttention<Attention> {
  static constexpr Description kDescription{.name = "attention",
                                            .inputs = "q k v mask",
                                            .formula = "y = softmax(scale q k^T where mask) v",
                                            .source = "Vaswani et al. 2017",
                                            .saved_inputs = 0b1111,
                                            .saves_output = true,
                                            .saved = "lse"};
  using AnyAttention::AnyAttention;
};

// As many keys as queries and no mask: then it is known which rows each row depends on.
struct CausalAttention : AnyAttention<CausalAttention> {
  static constexpr Description kDescription{.name = "causal_attention",
                                            .inputs = "q k v",
                                            .formula = "y = softmax(scale q k^T, causal) v",
                                            .source = "Vaswani et al. 2017",
                                            .saved_inputs = 0b111,
                                            .saves_output = true,
                                            .saved = "lse",
                                            .row_inputs = 0b001,
                                            .earlier_inputs = 0b110,
                                            .row_saved = 0b1};
  using AnyAttention::AnyAttention;
};

void expect_mask(const char* name, const Tensor& mask, const Site& site) {
  expect(mask.dtype() == DType::int32, site, "attention: the {} must be int32, got {}", name, mask.dtype());
  const Tensor here = mask.on_host();
  const auto* const value = here.data<std::int32_t>();
  for (Index i = 0; i < mask.size(); ++i) {
    expect(value[i] == 0 || value[i] == 1, site, "attention: the {} must hold 0 or 1, got {} at position {}", name,
           value[i], i);
  }
}

// key_mask as [B, 1, 1, Tk], or an undefined tensor.
Tensor key_mask_of(const AttentionOptions& options, const Var& k, const Site& site) {
  if (!options.key_mask.defined()) return {};
  const Shape expected{k.dim(0), k.dim(1)};
  expect(options.key_mask.shape() == expected, site, "attention: the key_mask must be [B, Tk] = {}, got {}", expected,
         options.key_mask.shape());
  expect_mask("key_mask", options.key_mask, site);
  return options.key_mask.reshape({k.dim(0), 1, 1, k.dim(1)});
}

// mask as [B or 1, heads or 1, Tq, Tk], or an undefined tensor.
Tensor pair_mask_of(const AttentionOptions& options, const Var& q, const Var& k, Index heads, const Site& site) {
  if (!options.mask.defined()) return {};
  const Shape full{q.dim(0), heads, q.dim(1), k.dim(1)};
  const Shape by_batch = full.with_axis(1, 1), shared = by_batch.with_axis(0, 1);
  const Shape& got = options.mask.shape();
  expect(got == full || got == full.without_leading().without_leading() || got == Shape{full[0], full[2], full[3]},
         site, "attention: the mask must be [Tq, Tk], [B, Tq, Tk] or [B, heads, Tq, Tk] of {}, got {}", full, got);
  expect_mask("mask", options.mask, site);
  return options.mask.reshape(got.rank() == 4 ? full : got.rank() == 3 ? by_batch : shared);
}

// Both masks in one, [B or 1, heads or 1, Tq or 1, Tk], or an undefined tensor.
Tensor combined_mask(const Tensor& keys, const Tensor& pairs) {
  if (!keys.defined() || !pairs.defined()) return keys.defined() ? keys : pairs;
  const Shape shape = broadcast_shapes(keys.shape(), pairs.shape());
  const Tensor by_key = broadcast_to(keys.on_host(), shape);
  Tensor both = broadcast_to(pairs.on_host(), shape).clone();
  auto* const out = both.output_data<std::int32_t>();
  const auto* const key = by_key.data<std::int32_t>();
  for (Index i = 0; i < both.size(); ++i) out[i] *= key[i];
  return both.to(keys.device());
}

void expect_shapes(const Var& q, const Var& k, const Var& v, Index heads, Index key_heads, const Site& site) {
  expect_same_kind("attention", q, k, site);
  expect_same_kind("attention", q, v, site);
  expect_numbers("attention", q, site);
  const bool ranks_fit = q.rank() == 3 && k.rank() == 3 && v.rank() == 3;
  expect(
      ranks_fit && k.dim(0) == q.dim(0) && v.dim(0) == q.dim(0) && v.dim(1) == k.dim(1), site,
      "attention: expected q [B, Tq, heads D], k [B, Tk, key_heads D] and v [B, Tk, key_heads Dv], got {}, {} and {}",
      q.shape(), k.shape(), v.shape());
  expect(heads > 0, site, "attention: expected a positive number of heads, got {}", heads);
  expect(q.dim(2) % heads == 0, site, "attention: {} heads don't divide the width {}", heads, q.dim(2));
  expect(key_heads > 0 && heads % key_heads == 0, site, "attention: {} key_heads don't divide {} heads", key_heads,
         heads);
  const Index columns = q.dim(2) / heads;
  expect(k.dim(2) == key_heads * columns, site,
         "attention: k must have {} heads of {} columns as q has, got the width {}", key_heads, columns, k.dim(2));
  expect(v.dim(2) % key_heads == 0, site, "attention: {} heads don't divide the width {} of v", key_heads, v.dim(2));
}

}  // namespace

Var attention(const Var& q, const Var& k, const Var& v, Index heads, const AttentionOptions& options, SourceLine line) {
  const Site site = site_of("attention", q, line);
  const Index key_heads = options.key_heads == 0 ? heads : options.key_heads;
  expect_shapes(q, k, v, heads, key_heads, site);
  const double columns = static_cast<double>(std::max<Index>(1, q.dim(2) / heads));
  const AttentionSettings settings{heads, options.scale.value_or(1.0 / std::sqrt(columns)), options.causal, key_heads};
  expect(std::isfinite(settings.scale), site, "attention: expected a finite scale, got {}", settings.scale);
  const Tensor mask = combined_mask(key_mask_of(options, k, site), pair_mask_of(options, q, k, heads, site));

  const Device device = q.value().device();
  const Index width = at_site("attention", site, [&] { return checked_product(heads, v.dim(2) / key_heads); });
  Tensor y = Tensor::uninitialized(q.shape().with_axis(-1, width), q.dtype(), device);
  Tensor lse = Tensor::uninitialized({q.dim(0), heads, q.dim(1)}, statistics_dtype(q.dtype()), device);
  device.kernels().attention(settings, q.value(), k.value(), v.value(), mask, y, lse);
  Tape& tape = q.tape();
  if (mask.defined()) {
    const Var recorded_mask = tape.constant(mask, "mask", line);
    return tape.record(Attention(settings), {q, k, v, recorded_mask}, std::move(y), {std::move(lse)}, line);
  }
  if (options.causal && q.dim(1) == k.dim(1)) {
    return tape.record(CausalAttention(settings), {q, k, v}, std::move(y), {std::move(lse)}, line);
  }
  return tape.record(Attention(settings), {q, k, v}, std::move(y), {std::move(lse)}, line);
}

Var causal_attention(const Var& q, const Var& k, const Var& v, Index heads, SourceLine line) {
  return attention(q, k, v, heads, {.causal = true}, line);
}

}  // namespace jnorm
