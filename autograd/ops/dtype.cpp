// Conversion between the floating-point dtypes.
//
//   y = x, rounded      dx = dy, rounded to x's dtype: rounding is taken for the identity

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/site.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

struct To : Primitive<To> {
  static constexpr Description kDescription{.name = "to", .inputs = "x", .formula = "y = x in another dtype"};
  template <class Back>
  void pull(Back& back) const {
    if (back.wants(0)) back.give(0, to(back.cotangent(), back.input(0).dtype()));
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(to(push.tangent(0), push.output().dtype()));
  }
};

}  // namespace

Var to(const Var& x, DType dtype, SourceLine line) {
  const Site site = site_of("to", x, line);
  expect(dtype != DType::int32 && x.dtype() != DType::int32, site,
         "to: expected two floating-point dtypes, got {} to {}", x.dtype(), dtype);
  if (x.dtype() == dtype) return x;
  return x.tape().record(To{}, {x}, to(x.value(), dtype), {}, line);
}

}  // namespace jnorm
