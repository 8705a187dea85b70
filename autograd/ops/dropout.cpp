// Dropout: a linear map with a random diagonal, its own adjoint.
//
//   y = m x / (1 - p)      dx = m dy / (1 - p),  m = 0 with probability p, else 1

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/site.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

struct Dropout : Primitive<Dropout> {
  static constexpr Description kDescription{.name = "dropout",
                                            .inputs = "x",
                                            .formula = "y = 0 with probability p, else x / (1 - p)",
                                            .source = "Srivastava et al. 2014"};
  double p;
  Rng::State mask;
  Index period;
  Dropout(double probability, const Rng::State& state, Index length) : p(probability), mask(state), period(length) {}

  template <class Back>
  void pull(Back& back) const {
    if (back.wants(0)) back.give(0, dropout(back.cotangent(), p, mask, period));
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(dropout(push.tangent(0), p, mask, period));
  }
};

}  // namespace

Var dropout(const Var& x, double p, const Rng::State& mask, Index period, SourceLine line) {
  const Site site = site_of("dropout", x, line);
  expect_numbers("dropout", x, site);
  expect(p >= 0.0 && p <= 1.0, site, "dropout: p must be from 0 to 1, got {}", p);
  Tensor y = at_site(site, [&] { return dropout(x.value(), p, mask, period); });
  return x.tape().record(Dropout(p, mask, period), {x}, std::move(y), {}, line);
}

Var dropout(const Var& x, double p, Rng& rng, SourceLine line) {
  expect_numbers("dropout", x, site_of("dropout", x, line));
  if (p == 0.0) return x;
  const Index size = x.shape().size();
  const Var y = dropout(x, p, rng.state(), size, line);
  rng.skip(static_cast<std::uint64_t>((size + 3) / 4));
  return y;
}

}  // namespace jnorm
