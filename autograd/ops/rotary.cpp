// Rotary position embedding. Derivation: rotary.md.
//
//   [ROT.1]  a_c = p base^(-2c/d), the angle of pair c of d/2 in position p
//   [ROT.2]  y_c = cos(a_c) x_c - sin(a_c) x_(c + d/2)     y_(c + d/2) = sin(a_c) x_c + cos(a_c) x_(c + d/2)
//   [ROT.3]  dx_c = cos(a_c) dy_c + sin(a_c) dy_(c + d/2)   dx_(c + d/2) = cos(a_c) dy_(c + d/2) - sin(a_c) dy_c
//   [ROT.4]  y_dot is [ROT.2] of x_dot

#include <cmath>
#include <numeric>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/site.hpp>
#include <jnorm/autograd/sweep.hpp>
#include <jnorm/core/operations.hpp>

namespace jnorm {

namespace {

// The table's row for each row of x [B, T, H]: 0 ... T - 1 for each sequence. [B T], int32
Tensor table_rows_of(const Tensor& x) {
  if (x.size() == 0) return Tensor::uninitialized({x.rows()}, DType::int32, x.device());
  Tensor sequence = Tensor::uninitialized({x.dim(1)}, DType::int32);  // 0, 1, ..., T - 1, the same for each of B
  auto* const row = sequence.output_data<std::int32_t>();
  std::iota(row, row + x.dim(1), 0);
  return broadcast_to(sequence.to(x.device()), {x.dim(0), x.dim(1)}).reshape({x.rows()});
}

struct Rotary : Fused<Rotary> {
  static constexpr Description kDescription{.name = "rotary",
                                            .inputs = "x",
                                            .formula = "y = x with the pairs (c, c + d/2) turned by p base^(-2c/d)",
                                            .derivation = "autograd/ops/rotary.md",
                                            .source = "Su et al. 2021",
                                            .saved = "table table_rows",
                                            .row_inputs = 0b1,
                                            .row_saved = 0b10};
  Index heads;
  RotaryOptions options;
  Rotary(Index head_count, const RotaryOptions& chosen) : heads(head_count), options(chosen) {}

  // The cosines and sines for x [B, T, heads d], which are all that the derivatives need: [T, d].
  Tensor table(const Tensor& x) const {
    Tensor result = Tensor::uninitialized({x.dim(1), x.dim(2) / heads}, statistics_dtype(x.dtype()), x.device());
    result.device().kernels().rotary_table(options.base, options.first_position, result);
    return result;
  }

  void vjp(Pullback& back) const override {
    back.output().device().kernels().rotary(Turn::backwards, back.cotangent(), back.saved(0), back.saved(1),
                                            back.into(0));  // [ROT.3]
  }

  void jvp(Pushforward& push) const override {
    if (!push.has(0)) return;
    const Tensor& tangent = push.tangent(0);
    Tensor y_dot = Tensor::uninitialized(tangent.shape(), tangent.dtype(), tangent.device());
    y_dot.device().kernels().rotary(Turn::forwards, tangent, push.saved(0), push.saved(1), {.tensor = y_dot});
    push.give(std::move(y_dot));  // [ROT.4]
  }

  Var composed(std::span<const Var> inputs) const override {
    const Var& x = inputs[0];
    const Index length = x.dim(1), half = x.dim(2) / heads / 2;
    const Var angles = reshape(x.tape().constant(table(x.value())), {length, 1, 2, half});
    const Var cosines = slice(angles, 2, {.stop = 1}), sines = slice(angles, 2, {.start = 1});  // [T, 1, 1, d/2]
    const Var pairs = reshape(x, {x.dim(0), length, heads, 2, half});
    const Var first = slice(pairs, 3, {.stop = 1}), second = slice(pairs, 3, {.start = 1});  // [B, T, heads, 1, d/2]
    return reshape(concat({first * cosines - second * sines, first * sines + second * cosines}, 3), x.shape());
  }
};

}  // namespace

Var rotary(const Var& x, Index heads, const RotaryOptions& options, SourceLine line) {
  const Site site = site_of("rotary", x, line);
  expect_numbers("rotary", x, site);
  expect(x.rank() == 3, site, "rotary: expected x [B, T, heads * d], got {}", x.shape());
  expect(heads > 0, site, "rotary: expected a positive number of heads, got {}", heads);
  expect(x.dim(2) % heads == 0, site, "rotary: {} heads don't divide the width {}", heads, x.dim(2));
  expect(x.dim(2) / heads % 2 == 0, site, "rotary: a head of {} columns has one without a partner; d must be even",
         x.dim(2) / heads);
  expect(std::isfinite(options.base) && options.base >= 1.0, site, "rotary: expected a finite base from 1 on, got {}",
         options.base);
  constexpr Index last = Index{1} << 53;  // float64 holds the positions up to it
  expect(options.first_position >= 0 && options.first_position <= last - x.dim(1), site,
         "rotary: expected a first_position from 0 to 2^53 - {}, got {}", x.dim(1), options.first_position);

  const Rotary operation(heads, options);
  Tensor table = operation.table(x.value()), table_rows = table_rows_of(x.value());
  Tensor y = Tensor::uninitialized(x.shape(), x.dtype(), x.value().device());
  y.device().kernels().rotary(Turn::forwards, x.value(), table, table_rows, {.tensor = y});  // [ROT.2]
  return x.tape().record(operation, {x}, std::move(y), {std::move(table), std::move(table_rows)}, line);
}

}  // namespace jnorm
