#pragma once

// The operations that the property tests draw from, family by family.

#include <array>

#include <fmt/format.h>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/masked.hpp>

#include "autograd/random_call.hpp"

namespace jnorm::test {

using Vars = std::span<const Var>;

inline RandomCall random_arithmetic(Draw& draw) {
  if (draw.between(0, 4) == 0) {
    const double scale = static_cast<double>(draw.between(-2, 2)), shift = static_cast<double>(draw.between(-2, 2));
    return {fmt::format("affine {} x + {}", scale, shift),
            [=](Vars x) { return affine(x[0], scale, shift); },
            {draw.normal(draw.shape(0, 4))},
            Reach::element};
  }
  struct Operation {
    const char* name;
    Var (*call)(const Var&, const Var&, SourceLine);
  };
  const auto operation =
      draw.one_of<Operation>({{"add", add}, {"subtract", subtract}, {"multiply", multiply}, {"divide", divide}});
  const Shape whole = draw.shape(0, 4);
  const bool broadcasts = draw.coin();
  const Shape a = broadcasts ? draw.partner(whole) : whole, b = broadcasts ? draw.partner(whole) : whole;
  return {operation.name,
          [=](Vars x) { return operation.call(x[0], x[1], SourceLine::here()); },
          {draw.off_zero(a), draw.off_zero(b)},
          broadcasts ? Reach::anywhere : Reach::element};
}

inline RandomCall random_power(Draw& draw) {
  const Shape shape = draw.shape(0, 4);
  if (draw.coin()) {
    const double p = draw.one_of({-1.0, 0.0, 0.5, 1.0, 2.0, 2.5});
    return {fmt::format("pow of {}", p), [=](Vars x) { return pow(x[0], p); }, {draw.positive(shape)}, Reach::element};
  }
  return {"pow", [](Vars x) { return pow(x[0], x[1]); }, {draw.positive(shape), draw.normal(shape)}, Reach::element};
}

inline RandomCall random_function(Draw& draw) {
  struct Function {
    const char* name;
    Var (*call)(const Var&, SourceLine);
    bool positive = false, has_limits = false;
  };
  const auto function = draw.one_of<Function>({{"exp", exp},
                                               {"log", log, true},
                                               {"log1p", log1p, true},
                                               {"expm1", expm1},
                                               {"sqrt", sqrt, true},
                                               {"rsqrt", rsqrt, true},
                                               {"reciprocal", reciprocal},
                                               {"square", square},
                                               {"negate", negate},
                                               {"tanh", tanh},
                                               {"sigmoid", sigmoid},
                                               {"erf", erf},
                                               {"abs", abs},
                                               {"sign", sign},
                                               {"relu", relu, false, true},
                                               {"gelu", gelu, false, true},
                                               {"gelu_tanh", gelu_tanh, false, true},
                                               {"silu", silu, false, true}});
  const Shape shape = draw.shape(0, 4);
  return {function.name,
          [=](Vars x) { return function.call(x[0], SourceLine::here()); },
          {function.positive ? draw.positive(shape) : draw.off_zero(shape)},
          Reach::element,
          function.has_limits};
}

inline RandomCall random_choice(Draw& draw) {
  const Shape whole = draw.shape(0, 4);
  const bool broadcasts = draw.coin();
  const Shape a = broadcasts ? draw.partner(whole) : whole, b = broadcasts ? draw.partner(whole) : whole;
  const Reach reach = broadcasts ? Reach::anywhere : Reach::element;
  switch (draw.between(0, 4)) {
    case 0: return {"maximum", [](Vars x) { return maximum(x[0], x[1]); }, {draw.normal(a), draw.normal(b)}, reach};
    case 1: return {"minimum", [](Vars x) { return minimum(x[0], x[1]); }, {draw.normal(a), draw.normal(b)}, reach};
    case 2: {
      const Tensor condition = draw.mask(broadcasts ? draw.partner(whole) : whole);
      return {"where " + to_string(condition),
              [=](Vars x) { return where(condition, x[0], x[1]); },
              {draw.normal(a), draw.normal(b)},
              reach};
    }
    case 3: {
      const double low = draw.coin() ? -0.5 : 0.0;
      return {fmt::format("clamp to {}, 1", low),
              [=](Vars x) { return clamp(x[0], low, 1.0); },
              {draw.normal(whole)},
              Reach::element};
    }
    default: {
      const double p = draw.one_of({0.0, 0.3, 1.0});
      const Rng::State state{.seed = static_cast<std::uint64_t>(draw.between(0, 1000))};
      return {fmt::format("dropout {}, seed {}", p, state.seed),
              [=](Vars x) {
                Rng rng = Rng::from_state(state);
                return dropout(x[0], p, rng);
              },
              {draw.normal(whole)},
              Reach::element};
    }
  }
}

inline RandomCall random_part(Draw& draw) {
  const Shape shape = draw.shape(1, 4);
  const int axis = draw.axis_of(shape);
  const Index size = shape[axis];
  switch (draw.between(0, 4)) {
    case 0: {
      const Range range{
          .start = draw.between(-size, size), .stop = draw.between(-size, size), .step = draw.between(1, 3)};
      return {fmt::format("slice {}:{}:{} of axis {}", *range.start, *range.stop, range.step, axis),
              [=](Vars x) { return slice(x[0], axis, range); },
              {draw.normal(shape)}};
    }
    case 1: {
      std::vector<Tensor> parts;
      for (Index count = draw.between(1, 6); count > 0; --count) {
        parts.push_back(draw.normal(shape.with_axis(axis, draw.size())));
      }
      return {fmt::format("concat along {}", axis), [=](Vars x) { return concat(x, axis); }, parts};
    }
    case 2: {
      const Tensor index = draw.integers({size == 0 ? 0 : draw.size()}, std::max<Index>(size, 1));
      return {fmt::format("index_select of axis {} by {}", axis, to_string(index)),
              [=](Vars x) { return index_select(x[0], axis, index); },
              {draw.normal(shape)}};
    }
    case 3: {
      const Tensor index = draw.integers(shape.with_axis(axis, size == 0 ? 0 : draw.size()), std::max<Index>(size, 1));
      return {fmt::format("gather of axis {} by {}", axis, to_string(index)),
              [=](Vars x) { return gather(x[0], axis, index); },
              {draw.normal(shape)}};
    }
    default: {
      const Tensor index = draw.integers(shape, 3);
      const Shape whole = shape.with_axis(axis, 3);
      return {fmt::format("scatter_add to axis {} by {}", axis, to_string(index)),
              [=](Vars x) { return scatter_add(x[0], axis, index, whole); },
              {draw.normal(shape)}};
    }
  }
}

inline RandomCall random_shape_change(Draw& draw) {
  const Shape shape = draw.shape(0, 4);
  const auto x = draw.normal(shape);
  const std::vector<int> order = draw.order_of_axes(shape.rank());
  switch (draw.between(0, 3)) {
    case 0: {
      Shape other{shape.size()};
      if (draw.coin()) {
        other = shape;
        for (int axis = 0; axis < shape.rank(); ++axis) {
          other = other.with_axis(axis, shape[order[static_cast<std::size_t>(axis)]]);
        }
      }
      if (draw.coin()) other = other.with_trailing(1);
      return {"reshape to " + to_string(other), [=](Vars v) { return reshape(v[0], other); }, {x}};
    }
    case 1:
      return {"broadcast_to " + to_string(shape),
              [=](Vars v) { return broadcast_to(v[0], shape); },
              {draw.normal(draw.partner(shape))}};
    case 2:
      return {fmt::format("permute to {}", fmt::join(order, ", ")),
              [=](Vars v) { return permute(v[0], std::span<const int>(order)); },
              {x}};
    default:
      if (shape.rank() < 2) return {"unsqueeze", [](Vars v) { return unsqueeze(v[0], -1); }, {x}};
      return {"transpose", [](Vars v) { return transpose(v[0]); }, {x}};
  }
}

inline Var biased_variance(const Var& x, SourceLine line) { return variance(x, 0, line); }
inline Var biased_variance(const Var& x, std::initializer_list<int> axes, Keep keep, SourceLine line) {
  return variance(x, axes, 0, keep, line);
}
inline Var biased_deviation(const Var& x, SourceLine line) { return standard_deviation(x, 0, line); }
inline Var biased_deviation(const Var& x, std::initializer_list<int> axes, Keep keep, SourceLine line) {
  return standard_deviation(x, axes, 0, keep, line);
}

inline RandomCall random_reduction(Draw& draw) {
  Shape shape = draw.shape(1, 4);
  for (int axis = 0; axis < shape.rank(); ++axis) {  // extremes need an element
    if (shape[axis] == 0) shape = shape.with_axis(axis, 1);
  }
  struct Reduction {
    const char* name;
    Var (*all)(const Var&, SourceLine);
    Var (*some)(const Var&, std::initializer_list<int>, Keep, SourceLine);
  };
  const auto reduction = draw.one_of<Reduction>({{"sum", sum, sum},
                                                 {"mean", mean, mean},
                                                 {"max", max, max},
                                                 {"min", min, min},
                                                 {"variance", biased_variance, biased_variance},
                                                 {"standard_deviation", biased_deviation, biased_deviation},
                                                 {"logsumexp", logsumexp, logsumexp},
                                                 {"l1_norm", l1_norm, l1_norm},
                                                 {"l2_norm", l2_norm, l2_norm},
                                                 {"max_norm", max_norm, max_norm}});
  const Keep keep = draw.coin() ? Keep::yes : Keep::no;
  const int first = draw.axis_of(shape), second = draw.axis_of(shape);
  const std::string note = keep == Keep::yes ? ", kept" : "";
  if (draw.between(0, 3) == 0) {
    return {reduction.name, [=](Vars x) { return reduction.all(x[0], SourceLine::here()); }, {draw.normal(shape)}};
  }
  if (shape.resolve_axis(first) == shape.resolve_axis(second)) {
    return {fmt::format("{} over {}{}", reduction.name, first, note),
            [=](Vars x) { return reduction.some(x[0], {first}, keep, SourceLine::here()); },
            {draw.normal(shape)}};
  }
  return {fmt::format("{} over {} and {}{}", reduction.name, first, second, note),
          [=](Vars x) {
            return reduction.some(x[0], {first, second}, keep, SourceLine::here());
          },
          {draw.normal(shape)}};
}

inline RandomCall random_product(Draw& draw) {
  const Index inner = draw.size(), columns = draw.size();
  if (draw.coin()) {
    const bool has_bias = draw.coin();
    std::vector<Tensor> inputs{draw.normal(draw.shape(0, 2).with_trailing(inner)), draw.normal({columns, inner})};
    if (has_bias) inputs.push_back(draw.normal({columns}));
    return {"linear", [=](Vars x) { return linear(x[0], x[1], has_bias ? x[2] : Var()); }, inputs, Reach::row};
  }
  const bool transpose_a = draw.coin(), transpose_b = draw.coin();
  const Index rows = draw.leading_size(inner);
  Shape a = transpose_a ? Shape{inner, rows} : Shape{rows, inner};
  Shape b = transpose_b ? Shape{columns, inner} : Shape{inner, columns};
  for (Index axes = draw.between(0, 2); axes > 0; --axes) {
    const Index batch = draw.size();
    a = a.with_leading(draw.between(0, 3) == 0 ? 1 : batch);
    b = b.with_leading(draw.between(0, 3) == 0 ? 1 : batch);
  }
  return {fmt::format("matmul{}{}", transpose_a ? ", a transposed" : "", transpose_b ? ", b transposed" : ""),
          [=](Vars x) { return matmul(x[0], x[1], transpose_a, transpose_b); },
          {draw.normal(a), draw.normal(b)}};
}

inline RandomCall random_masked_product(Draw& draw) {
  const Index rows = draw.size(), columns = draw.size(), inner = draw.size();
  const Shape batch = draw.shape(0, 2);
  const auto batched = [&](Index m, Index n) { return batch.with_trailing(m).with_trailing(n); };
  // The mask repeats along the batches, or doesn't.
  const Tensor mask = draw.mask(draw.coin() ? Shape{rows, columns} : batched(rows, columns));
  const std::string note = ", mask " + to_string(mask);
  switch (draw.between(0, 2)) {
    case 0:
      return {"select" + note,
              [=](Vars x) { return select(x[0], mask); },
              {draw.normal(batched(rows, columns))},
              Reach::element};
    case 1:
      return {"sampled_matmul" + note,
              [=](Vars x) { return sampled_matmul(x[0], x[1], mask); },
              {draw.normal(batched(rows, inner)), draw.normal(batched(columns, inner))}};
    default: {
      const bool transpose = draw.coin();
      return {"masked_matmul" + note + (transpose ? ", transposed" : ""),
              [=](Vars x) { return masked_matmul(x[0], x[1], mask, transpose); },
              {draw.normal(batched(rows, columns)), draw.normal(batched(transpose ? rows : columns, inner))}};
    }
  }
}

inline RandomCall random_embedding(Draw& draw) {
  const Index rows = draw.present_size(), width = draw.size();
  const Tensor tokens = draw.integers(draw.shape(0, 3), rows);
  return {"embedding of " + to_string(tokens),
          [=](Vars x) { return embedding(x[0], tokens); },
          {draw.normal({rows, width})}};
}

// gamma and beta, either of which may be absent, after the inputs that are always there.
struct Parameters {
  bool has_gamma, has_beta;
  explicit Parameters(Draw& draw) : has_gamma(draw.coin()), has_beta(draw.coin()) {}
  Parameters(bool gamma, bool beta) : has_gamma(gamma), has_beta(beta) {}

  Var gamma(Vars x, std::size_t first = 1) const { return has_gamma ? x[first] : Var(); }
  Var beta(Vars x, std::size_t first = 1) const { return has_beta ? x[first + (has_gamma ? 1 : 0)] : Var(); }
  void add_to(std::vector<Tensor>& inputs, Draw& draw, Index width) const {
    if (has_gamma) inputs.push_back(draw.off_zero({width}));
    if (has_beta) inputs.push_back(draw.normal({width}));
  }
  std::string text() const { return fmt::format("{}{}", has_gamma ? " gamma" : "", has_beta ? " beta" : ""); }
};

inline RandomCall random_norm_over_rows(Draw& draw) {
  const Shape shape = draw.shape(1, 4);
  const double eps = draw.one_of({1e-5, 0.25});
  const Parameters parameters(draw);
  std::vector<Tensor> inputs{draw.off_zero(shape)};
  switch (draw.between(0, 3)) {
    case 0:
      parameters.add_to(inputs, draw, shape.last());
      return {fmt::format("layer_norm{}, eps {}", parameters.text(), eps),
              [=](Vars x) { return layer_norm(x[0], parameters.gamma(x), parameters.beta(x), eps); }, inputs,
              Reach::row};
    case 1: {
      const Parameters gamma(parameters.has_gamma, false);
      gamma.add_to(inputs, draw, shape.last());
      return {fmt::format("rms_norm{}, eps {}", gamma.text(), eps),
              [=](Vars x) { return rms_norm(x[0], gamma.gamma(x), eps); }, inputs, Reach::row};
    }
    case 2: {
      const Parameters g(parameters.has_gamma, false);
      if (g.has_gamma) inputs.push_back(draw.off_zero(draw.coin() ? Shape{} : Shape{1}));
      return {fmt::format("scale_norm{}, eps {}", g.has_gamma ? " g" : "", eps),
              [=](Vars x) { return scale_norm(x[0], g.gamma(x), eps); }, inputs, Reach::row};
    }
    default:
      inputs.push_back(draw.off_zero(draw.coin() ? Shape{} : Shape{1}));
      parameters.add_to(inputs, draw, shape.last());
      return {fmt::format("dynamic_tanh{}", parameters.text()),
              [=](Vars x) { return dynamic_tanh(x[0], x[1], parameters.gamma(x, 2), parameters.beta(x, 2)); }, inputs,
              Reach::element};
  }
}

inline RandomCall random_batch_norm(Draw& draw) {
  const double eps = draw.one_of({1e-5, 0.25});
  const Parameters parameters(draw);
  Shape shape;
  int axis = 0;
  Tensor mask;
  Index counted = 0;
  do {  // training needs two values a channel, or none
    shape = draw.shape(1, 4);
    axis = draw.axis_of(shape);
    std::vector<Index> positions(shape.begin(), shape.end());
    positions.resize(static_cast<std::size_t>(shape.rank()));
    positions.erase(positions.begin() + shape.resolve_axis(axis));
    mask = draw.mask(Shape(std::span<const Index>(positions)));
    if (draw.coin()) mask = ones(mask.shape(), DType::int32);
    counted = 0;
    for (Index i = 0; i < mask.size(); ++i) counted += mask.data<std::int32_t>()[i];
  } while (counted == 1);
  if (counted == mask.size() && draw.coin()) mask = {};
  std::vector<Tensor> inputs{draw.normal(shape)};
  parameters.add_to(inputs, draw, shape[axis]);
  return {fmt::format("batch_norm{}, eps {}, axis {}{}", parameters.text(), eps, axis,
                      mask.defined() ? ", mask " + to_string(mask) : ""),
          [=](Vars x) {
            return batch_norm(x[0], parameters.gamma(x), parameters.beta(x),
                              {.eps = eps, .channel_axis = axis, .mask = mask})
                .y;
          },
          inputs};
}

inline RandomCall random_norm_over_channels(Draw& draw) {
  const Index kind = draw.between(0, 2);
  if (kind == 0) return random_batch_norm(draw);
  Shape shape = draw.shape(1, 4);
  const int axis = draw.axis_of(shape);
  const ChannelNormOptions options{.eps = draw.one_of({1e-5, 0.25}), .channel_axis = axis};
  const Parameters parameters(draw);
  if (kind == 1) {
    const Index groups = draw.between(1, 3);
    shape = shape.with_axis(axis, groups * draw.between(0, 2));
    std::vector<Tensor> inputs{draw.normal(shape)};
    parameters.add_to(inputs, draw, shape[axis]);
    return {fmt::format("group_norm of {} groups{}, eps {}, axis {}", groups, parameters.text(), options.eps, axis),
            [=](Vars x) { return group_norm(x[0], groups, parameters.gamma(x), parameters.beta(x), options); }, inputs};
  }
  std::vector<Tensor> inputs{draw.normal(shape)};
  parameters.add_to(inputs, draw, shape[axis]);
  const Tensor mean = draw.normal({shape[axis]}), variance = draw.positive({shape[axis]});
  return {fmt::format("batch_norm_evaluation{}, eps {}, axis {}", parameters.text(), options.eps, axis),
          [=](Vars x) {
            return batch_norm_evaluation(x[0], mean, variance, parameters.gamma(x), parameters.beta(x), options);
          },
          inputs, Reach::element};
}

inline RandomCall random_softmax(Draw& draw) {
  const Shape shape = draw.shape(1, 4);
  const int axis = draw.axis_of(shape);
  const bool logarithm = draw.coin();
  return {fmt::format("{} over {}", logarithm ? "log_softmax" : "softmax", axis),
          [=](Vars x) { return logarithm ? log_softmax(x[0], axis) : softmax(x[0], axis); },
          {draw.normal(shape)},
          shape.resolve_axis(axis) == shape.rank() - 1 ? Reach::row : Reach::anywhere};
}

inline RandomCall random_cross_entropy(Draw& draw) {
  const Index classes = draw.present_size();
  const Shape rows = draw.shape(0, 3);
  CrossEntropyOptions options;
  if (draw.coin()) options.ignore_index = static_cast<std::int32_t>(draw.between(-1, classes));
  if (draw.coin()) options.label_smoothing = 0.1;
  if (draw.coin()) options.class_weights = draw.positive({classes});
  options.reduction = draw.one_of({Reduction::mean, Reduction::sum, Reduction::none});
  Tensor targets = draw.integers(rows, classes);
  auto* const target = targets.mutable_data<std::int32_t>();
  for (Index i = 0; i < targets.size(); ++i) {
    if (draw.between(0, 3) == 0) target[i] = options.ignore_index;
  }
  return {fmt::format("cross_entropy of {}, ignored {}, smoothing {}, weights {}, reduction {}", to_string(targets),
                      options.ignore_index, options.label_smoothing, options.class_weights.defined(),
                      static_cast<int>(options.reduction)),
          [=](Vars x) { return cross_entropy(x[0], targets, options); },
          {draw.normal(rows.with_trailing(classes))}};
}

inline RandomCall random_rotary(Draw& draw) {
  const Index heads = draw.between(1, 3), length = draw.size(), width = heads * 2 * draw.between(0, 2);
  const RotaryOptions options{.base = draw.one_of({1.0, 500.0, 10000.0}), .first_position = draw.between(0, 1000)};
  return {fmt::format("rotary of {} heads, base {}, first position {}", heads, options.base, options.first_position),
          [=](Vars x) { return rotary(x[0], heads, options); },
          {draw.normal({draw.leading_size(length * width), length, width})},
          Reach::row};
}

inline RandomCall random_attention(Draw& draw) {
  const Index group = draw.one_of<Index>({1, 1, 2}), key_heads = draw.between(1, 3), heads = group * key_heads;
  const Index keys = draw.size(), columns = draw.between(0, 3),
              value_columns = draw.coin() ? columns : draw.between(0, 3), width = heads * columns;
  const Index queries = draw.coin() ? keys : draw.size(), batch = draw.leading_size(queries * (width + 1));
  AttentionOptions options;
  options.causal = draw.coin();
  options.key_heads = group == 1 ? 0 : key_heads;
  if (draw.between(0, 2) == 0) options.scale = 0.3;
  if (draw.between(0, 2) == 0) options.key_mask = draw.mask({batch, keys});
  if (draw.between(0, 2) == 0) {
    options.mask =
        draw.mask(draw.one_of<Shape>({{queries, keys}, {batch, queries, keys}, {batch, heads, queries, keys}}));
  }
  return {fmt::format("attention of {} heads, {} key_heads{}{}{}{}", heads, key_heads, options.causal ? ", causal" : "",
                      options.scale ? ", scale 0.3" : "",
                      options.key_mask.defined() ? ", key_mask " + to_string(options.key_mask) : "",
                      options.mask.defined() ? ", mask " + to_string(options.mask) : ""),
          [=](Vars x) { return attention(x[0], x[1], x[2], heads, options); },
          {draw.normal({batch, queries, width}), draw.normal({batch, keys, key_heads * columns}),
           draw.normal({batch, keys, key_heads * value_columns})}};
}

struct CallFamily {
  const char* name;
  RandomCall (*draw)(Draw&);
};

inline constexpr CallFamily kCallFamilies[] = {{"arithmetic", random_arithmetic},
                                               {"powers", random_power},
                                               {"functions", random_function},
                                               {"choices", random_choice},
                                               {"parts", random_part},
                                               {"shapes", random_shape_change},
                                               {"reductions", random_reduction},
                                               {"products", random_product},
                                               {"masked products", random_masked_product},
                                               {"embeddings", random_embedding},
                                               {"norms over rows", random_norm_over_rows},
                                               {"norms over channels", random_norm_over_channels},
                                               {"softmax", random_softmax},
                                               {"cross_entropy", random_cross_entropy},
                                               {"attention", random_attention},
                                               {"rotary", random_rotary}};

}  // namespace jnorm::test
