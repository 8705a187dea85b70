// Softmax and log-softmax over the last axis; another axis is swapped with it before and after.
//
//   [SM.1]  p_i = e^(x_i) / sum_j e^(x_j)                J = diag(p) - p p^T, symmetric
//   [SM.2]  dx = p * (dy - sum(p * dy))                  and p_dot the same of x_dot
//   [SM.3]  z_i = x_i - log sum_j e^(x_j)                dx = dy - p sum(dy)
//   [SM.4]  z_dot = x_dot - sum(p * x_dot)

#include <algorithm>
#include <array>
#include <numeric>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/row_maximum.hpp>
#include <jnorm/autograd/site.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

struct Softmax : Fused<Softmax> {
  static constexpr Description kDescription{
      .name = "softmax", .inputs = "x", .formula = "p = e^x / sum(e^x)", .saves_output = true, .row_inputs = 0b1};

  void vjp(Pullback& back) const override {
    back.output().device().kernels().softmax_dx(back.cotangent(), back.output(), back.into(0));  // [SM.2]
  }
  void jvp(Pushforward& push) const override {
    if (!push.has(0)) return;
    const Tensor& tangent = push.tangent(0);
    Tensor result = Tensor::uninitialized(tangent.shape(), tangent.dtype(), tangent.device());
    tangent.device().kernels().softmax_dx(tangent, push.output(), {.tensor = result});  // [SM.2], J is symmetric
    push.give(std::move(result));
  }
  Var composed(std::span<const Var> inputs) const override {
    const Var& x = inputs[0];
    const Var e = exp(x - row_maximum(x.value()));
    return e / sum(e, {-1}, Keep::yes);
  }
};

struct LogSoftmax : Fused<LogSoftmax> {
  static constexpr Description kDescription{
      .name = "log_softmax", .inputs = "x", .formula = "z = x - log sum(e^x)", .saves_output = true, .row_inputs = 0b1};

  void vjp(Pullback& back) const override {
    back.output().device().kernels().log_softmax_dx(back.cotangent(), back.output(), back.into(0));  // [SM.3]
  }
  void jvp(Pushforward& push) const override {
    if (!push.has(0)) return;
    const Tensor p = exp(push.output());
    const Tensor weighted = multiply(push.tangent(0), p);                  // [K, ..., H]
    const Tensor total = sum_axes(weighted, 1u << (weighted.rank() - 1));  // [K, ...]
    const Tensor column = reshape(total, weighted.shape().with_axis(-1, 1));
    push.give(subtract(push.tangent(0), broadcast_to(column, weighted.shape())));  // [SM.4]
  }
  Var composed(std::span<const Var> inputs) const override {
    const Var shifted = inputs[0] - row_maximum(inputs[0].value());
    return shifted - log(sum(exp(shifted), {-1}, Keep::yes));
  }
};

Tensor same_shape(const Tensor& x) { return Tensor::uninitialized(x.shape(), x.dtype(), x.device()); }

}  // namespace

Tensor row_maximum(const Tensor& x) {
  const std::vector<double> values = x.values();
  const auto width = static_cast<std::size_t>(x.row_length());
  std::vector<double> maxima;
  for (std::size_t begin = 0; begin < values.size(); begin += width) {
    maxima.push_back(*std::max_element(values.data() + begin, values.data() + begin + width));
  }
  return tensor(x.shape().with_axis(-1, x.dim(-1) == 0 ? 0 : 1), maxima, x.dtype()).to(x.device());
}

namespace {

// x with two axes swapped, which undoes itself.
Var swap_axes(const Var& x, int a, int b, SourceLine line) {
  std::array<int, Shape::kMaxRank> order{};
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<std::size_t>(a)], order[static_cast<std::size_t>(b)]);
  return permute(x, std::span<const int>(order.data(), static_cast<std::size_t>(x.rank())), line);
}

// over_last_axis(x), with `axis` in the place of the last one.
Var over_axis(const char* name, const Var& x, int axis, Var (*over_last_axis)(const Var&, SourceLine),
              SourceLine line) {
  const Site site = site_of(name, x, line);
  expect_numbers(name, x, site);
  expect(x.rank() >= 1, site, "{}: expected at least one axis, got a scalar", name);
  expect(axis >= -x.rank() && axis < x.rank(), site, "{}: axis {} is out of range for shape {}", name, axis, x.shape());
  const int chosen = x.shape().resolve_axis(axis), last = x.rank() - 1;
  if (chosen == last) return over_last_axis(x, line);
  return swap_axes(over_last_axis(swap_axes(x, chosen, last, line), line), chosen, last, line);
}

Var softmax_of_rows(const Var& x, SourceLine line) {
  Tensor y = same_shape(x.value());
  y.device().kernels().softmax(x.value(), y);
  return x.tape().record(Softmax{}, {x}, std::move(y), {}, line);
}

Var log_softmax_of_rows(const Var& x, SourceLine line) {
  Tensor y = same_shape(x.value());
  y.device().kernels().log_softmax(x.value(), y);
  return x.tape().record(LogSoftmax{}, {x}, std::move(y), {}, line);
}

}  // namespace

Var softmax(const Var& x, int axis, SourceLine line) { return over_axis("softmax", x, axis, softmax_of_rows, line); }

Var log_softmax(const Var& x, int axis, SourceLine line) {
  return over_axis("log_softmax", x, axis, log_softmax_of_rows, line);
}

}  // namespace jnorm
