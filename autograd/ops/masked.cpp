// Selection by a mask M of 0 and 1, and the two products that it makes of a matrix product. Each one's derivatives are
// the others:
//
//   [MASK.1]  select:          y = M ? x : 0             dx = M ? dy : 0
//   [MASK.2]  sampled_matmul:  y = M ? a b^T : 0         da = (M ? dy : 0) b       db = (M ? dy : 0)^T a
//   [MASK.3]  masked_matmul:   y = (M ? a : 0) b         da = M ? dy b^T : 0       db = (M ? a : 0)^T dy
//                              y = (M ? a : 0)^T b       da = M ? b dy^T : 0       db = (M ? a : 0) dy
//
// A product leaves masked elements out instead of multiplying by 0, so that NaN doesn't pass.

#include <jnorm/autograd/ops/masked.hpp>

#include <jnorm/autograd/ops/record.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

struct Select : Primitive<Select> {
  static constexpr Description kDescription{
      .name = "select", .inputs = "x mask", .formula = "y = x where mask, 0 elsewhere", .saved_inputs = 0b10};

  template <class Back>
  void pull(Back& back) const {
    if (back.wants(0)) back.give(0, select(back.cotangent(), value_of(back.input(1))));  // [MASK.1]
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(select(push.tangent(0), push.input(1)));
  }
};

struct SampledMatmul : Primitive<SampledMatmul> {
  static constexpr Description kDescription{.name = "sampled_matmul",
                                            .inputs = "a b mask",
                                            .formula = "y = a b^T where mask, 0 elsewhere",
                                            .saved_inputs = 0b111};

  template <class Back>
  void pull(Back& back) const {
    const auto& mask = value_of(back.input(2));
    if (back.wants(0)) back.give(0, masked_matmul(back.cotangent(), back.input(1), mask));
    if (back.wants(1)) back.give(1, masked_matmul(back.cotangent(), back.input(0), mask, true));  // [MASK.2]
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(sampled_matmul(push.tangent(0), push.input(1), push.input(2)));
    if (push.has(1)) push.give(sampled_matmul(push.input(0), push.tangent(1), push.input(2)));
  }
};

struct MaskedMatmul : Primitive<MaskedMatmul> {
  static constexpr Description kDescription{
      .name = "masked_matmul", .inputs = "a b mask", .formula = "y = op(a where mask) b", .saved_inputs = 0b111};
  bool transpose;
  explicit MaskedMatmul(bool transpose_a) : transpose(transpose_a) {}

  template <class Back>
  void pull(Back& back) const {
    const auto& mask = value_of(back.input(2));
    const auto& dy = back.cotangent();
    if (back.wants(0)) {
      back.give(0, transpose ? sampled_matmul(back.input(1), dy, mask) : sampled_matmul(dy, back.input(1), mask));
    }
    if (back.wants(1)) back.give(1, masked_matmul(back.input(0), dy, mask, !transpose));  // [MASK.3]
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(masked_matmul(push.tangent(0), push.input(1), push.input(2), transpose));
    if (push.has(1)) push.give(masked_matmul(push.input(0), push.tangent(1), push.input(2), transpose));
  }
};

}  // namespace

Var select(const Var& x, const Tensor& mask, SourceLine line) {
  const Site site = site_of("select", x, line);
  expect_numbers("select", x, site);
  Tensor y = at_site(site, [&] { return select(x.value(), mask); });
  return x.tape().record(Select{}, {x, x.tape().constant(mask, "mask", line)}, std::move(y), {}, line);
}

Var sampled_matmul(const Var& a, const Var& b, const Tensor& mask, SourceLine line) {
  const Site site = site_of("sampled_matmul", a, line);
  expect_same_kind("sampled_matmul", a, b, site);
  expect_numbers("sampled_matmul", a, site);
  Tensor y = at_site(site, [&] { return sampled_matmul(a.value(), b.value(), mask); });
  return a.tape().record(SampledMatmul{}, {a, b, a.tape().constant(mask, "mask", line)}, std::move(y), {}, line);
}

Var masked_matmul(const Var& a, const Var& b, const Tensor& mask, bool transpose_a, SourceLine line) {
  const Site site = site_of("masked_matmul", a, line);
  expect_same_kind("masked_matmul", a, b, site);
  expect_numbers("masked_matmul", a, site);
  Tensor y = at_site(site, [&] { return masked_matmul(a.value(), b.value(), mask, transpose_a); });
  return a.tape().record(MaskedMatmul(transpose_a), {a, b, a.tape().constant(mask, "mask", line)}, std::move(y), {},
                         line);
}

}  // namespace jnorm
