// A linear layer on rows, with weight and bias as layers hold them.
//
//   y = x W^T + b          x [R, in], W [out, in], b [out] -> y [R, out]
//   dx = dy W              dW = dy^T x              db = sum of dy's rows
//   y_dot = x_dot W^T + x W_dot^T + b_dot

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/site.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

// [..., H] -> [R, H], or [K, R, H] beside K cotangents.
Tensor as_rows(const Tensor& x, Index copies) {
  const Index count = x.shape().with_axis(-1, 1).size();  // also of rows without elements
  const Shape rows{count / std::max<Index>(copies, 1), x.row_length()};
  return x.reshape(copies > 0 ? rows.with_leading(copies) : rows);
}

Destination as_rows(Destination destination, Index copies) {
  if (destination.wanted()) destination.tensor = as_rows(destination.tensor, copies);
  return destination;
}

struct Linear : Fused<Linear> {
  static constexpr Description kDescription{
      .name = "linear", .inputs = "x weight bias", .formula = "y = x W^T + b", .saved_inputs = 0b11, .row_inputs = 0b1};

  void vjp(Pullback& back) const override {
    const Index copies = back.copies();
    const Kernels& kernels = back.output().device().kernels();
    const Tensor dy = as_rows(back.cotangent(), copies);
    if (back.wants(0)) {  // dx [K, R, in]
      kernels.matmul(dy, false, back.input(1), false, as_rows(back.into(0), copies));
    }
    if (back.wants(1)) {  // dW [K, out, in]
      kernels.matmul(dy, true, as_rows(back.input(0), 0), false, back.into(1));
    }
    if (back.wants(2)) kernels.column_sum(dy, back.into(2));
  }

  void jvp(Pushforward& push) const override {
    const Index copies = push.copies();
    const Shape shape = push.shaped(push.output().shape());
    if (push.has(0)) {
      push.give(reshape(matmul(as_rows(push.tangent(0), copies), push.input(1), false, true), shape));
    }
    if (push.has(1)) {
      push.give(reshape(matmul(as_rows(push.input(0), 0), push.tangent(1), false, true), shape));
    }
    if (push.has(2)) {  // [K, out] -> [K, 1, out] -> [K, R, out]
      const Tensor& tangent = push.tangent(2);
      const Shape row{1, tangent.row_length()};
      const Shape rows{push.output().rows(), tangent.row_length()};
      push.give(reshape(broadcast_to(reshape(tangent, push.shaped(row)), push.shaped(rows)), shape));
    }
  }

  Var composed(std::span<const Var> inputs) const override {
    const Var& x = inputs[0];
    const Var& weight = inputs[1];
    const Shape shape = x.shape().with_axis(-1, weight.dim(0));
    const Var rows = reshape(x, {x.shape().with_axis(-1, 1).size(), x.dim(-1)});
    const Var product = reshape(matmul(rows, weight, false, true), shape);
    return inputs.size() > 2 ? product + inputs[2] : product;
  }
};

}  // namespace

Var linear(const Var& x, const Var& weight, const Var& bias, SourceLine line) {
  const Site site = site_of("linear", x, line);
  expect_same_kind("linear", x, weight, site);
  expect_numbers("linear", x, site);
  expect(weight.rank() == 2, site, "linear: the weight must be [out, in], got {}", weight.shape());
  expect(x.rank() >= 1 && x.dim(-1) == weight.dim(1), site,
         "linear: the last axis of x {} must be the weight's input size {}", x.shape(), weight.dim(1));
  Tensor y = Tensor::uninitialized(x.shape().with_axis(-1, weight.dim(0)), x.dtype(), x.value().device());
  const Kernels& kernels = y.device().kernels();
  if (!bias.defined()) {
    kernels.linear(x.value(), weight.value(), {}, y);
    return x.tape().record(Linear{}, {x, weight}, std::move(y), {}, line);
  }
  expect_same_kind("linear", x, bias, site);
  expect(bias.shape() == Shape{weight.dim(0)}, site, "linear: the bias must be [{}], got {}", weight.dim(0),
         bias.shape());
  kernels.linear(x.value(), weight.value(), bias.value(), y);
  return x.tape().record(Linear{}, {x, weight, bias}, std::move(y), {}, line);
}

}  // namespace jnorm
