#include <jnorm/autograd/ops/detach.hpp>

#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

// Recorded as what a NoRecord scope computes, so that no sweep comes here.
struct Detach : Primitive<Detach> {
  static constexpr Description kDescription{.name = "detach", .inputs = "x", .formula = "y = x, taken for a constant"};
  template <class Back>
  void pull(Back& /*back*/) const {}
  void jvp(Pushforward& /*push*/) const override {}
};

}  // namespace

Var detach(const Var& x, SourceLine line) {
  const NoRecord scope(x.tape("detach"));
  return x.tape().record(Detach{}, {x}, x.value(), {}, line);
}

}  // namespace jnorm
