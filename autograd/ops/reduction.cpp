// Sums over axes, and what follows from them.
//
//   sum        <-> broadcast

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/axes.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

struct Sum : Primitive<Sum> {
  static constexpr Description kDescription{.name = "sum", .inputs = "x", .formula = "y = sum of x over axes"};
  std::uint32_t axes;
  explicit Sum(std::uint32_t bits) : axes(bits) {}

  template <class Back>
  void pull(Back& back) const {
    if (!back.wants(0)) return;
    const Shape shape = back.input(0).shape();
    back.give(0, broadcast_to(reshape(back.cotangent(), back.shaped(with_ones_at(shape, axes))), back.shaped(shape)));
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(sum_axes(push.tangent(0), axes << push.axis(0)));
  }
};

Var reduce(const Var& x, std::uint32_t axes, Keep keep, SourceLine line) {
  const Var y = sum_axes(x, axes, line);
  return keep == Keep::yes ? reshape(y, with_ones_at(x.shape(), axes), line) : y;
}

// The mean over no elements is 0/0, NaN, as NumPy and PyTorch have it.
Var mean_over(const Var& x, std::uint32_t axes, Keep keep, SourceLine line) {
  return affine(reduce(x, axes, keep, line), 1.0 / static_cast<double>(count_of(x.shape(), axes)), 0.0, line);
}

}  // namespace

Var sum_axes(const Var& x, std::uint32_t axes, SourceLine line) {
  if (axes == 0) return x;
  return x.tape().record(Sum(axes), {x}, sum_axes(x.value(), axes), {}, line);
}

Var sum(const Var& x, SourceLine line) { return reduce(x, all_axes(x), Keep::no, line); }

Var sum(const Var& x, std::initializer_list<int> axes, Keep keep, SourceLine line) {
  return reduce(x, axis_bits("sum", x, axes, {x.tape(), line}), keep, line);
}

Var mean(const Var& x, SourceLine line) { return mean_over(x, all_axes(x), Keep::no, line); }

Var mean(const Var& x, std::initializer_list<int> axes, Keep keep, SourceLine line) {
  return mean_over(x, axis_bits("mean", x, axes, {x.tape(), line}), keep, line);
}

}  // namespace jnorm
