// Operations that move or repeat elements: linear maps whose adjoint is another of them.
//
//   reshape    <-> reshape back
//   broadcast  <-> sum over the axes that repeated
//   permute    <-> permute by the inverse

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/axes.hpp>
#include <jnorm/autograd/site.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

// The bits of the axes of `to` along which `from` repeats; `from` is aligned at the last axis.
std::uint32_t repeated_axes(const Shape& from, const Shape& to) {
  std::uint32_t axes = 0;
  const int missing = to.rank() - from.rank();
  for (int axis = 0; axis < to.rank(); ++axis) {
    if (axis < missing || (from[axis - missing] == 1 && to[axis] != 1)) axes |= 1u << axis;
  }
  return axes;
}

struct Reshape : Primitive<Reshape> {
  static constexpr Description kDescription{
      .name = "reshape", .inputs = "x", .formula = "y holds x's elements in another shape", .row_inputs = 0b1};
  template <class Back>
  void pull(Back& back) const {
    if (back.wants(0)) back.give(0, reshape(back.cotangent(), back.shaped(back.input(0).shape())));
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(reshape(push.tangent(0), push.shaped(push.output().shape())));
  }
};

struct Broadcast : Primitive<Broadcast> {
  static constexpr Description kDescription{.name = "broadcast",
                                            .inputs = "x",
                                            .formula = "y repeats x along the axes that x lacks or has with size 1",
                                            .row_inputs = 0b1};
  template <class Back>
  void pull(Back& back) const {
    if (!back.wants(0)) return;
    const Shape& from = back.input(0).shape();
    const std::uint32_t axes = repeated_axes(from, back.output().shape());
    back.give(0, reshape(sum_axes(back.cotangent(), axes << back.axis(0)), back.shaped(from)));
  }
  void jvp(Pushforward& push) const override {
    if (!push.has(0)) return;
    // Ones between the leading axis and x's own, so that the leading axis doesn't slip: [K, H] -> [K, 1, H].
    const Shape& to = push.output().shape();
    const Shape aligned = with_ones_at(to, repeated_axes(push.input(0).shape(), to));
    push.give(broadcast_to(reshape(push.tangent(0), push.shaped(aligned)), push.shaped(to)));
  }
};

struct Permute : Primitive<Permute> {
  static constexpr Description kDescription{
      .name = "permute", .inputs = "x", .formula = "y's axis i is x's axis axes[i]"};
  using Axes = std::array<int, Shape::kMaxRank + 1>;
  Axes axes{};
  int rank = 0;

  explicit Permute(std::span<const int> order) : rank(static_cast<int>(order.size())) {
    std::copy(order.begin(), order.end(), axes.begin());
  }

  Axes inverse() const {
    Axes result{};
    for (int i = 0; i < rank; ++i) result[static_cast<std::size_t>(axes[static_cast<std::size_t>(i)])] = i;
    return result;
  }

  // Permutes the primal axes and leaves a leading one where it is.
  template <class T>
  T apply(const T& v, const Axes& order, int lead) const {
    Axes shifted{};
    for (int i = 0; i < rank; ++i) {
      shifted[static_cast<std::size_t>(i + lead)] = order[static_cast<std::size_t>(i)] + lead;
    }
    return permute(v, std::span<const int>(shifted.data(), static_cast<std::size_t>(rank + lead)));
  }

  template <class Back>
  void pull(Back& back) const {
    if (back.wants(0)) back.give(0, apply(back.cotangent(), inverse(), back.axis(0)));
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(apply(push.tangent(0), axes, push.axis(0)));
  }
};

}  // namespace

Var reshape(const Var& x, const Shape& shape, SourceLine line) {
  const Site site = site_of("reshape", x, line);
  if (x.shape() == shape) return x;
  expect(x.shape().size() == shape.size(), site, "reshape: {} has {} elements, but {} needs {}", x.shape(),
         x.shape().size(), shape, shape.size());
  return x.tape().record(Reshape{}, {x}, reshape(x.value(), shape), {}, line);
}

Var broadcast_to(const Var& x, const Shape& shape, SourceLine line) {
  const Site site = site_of("broadcast_to", x, line);
  if (x.shape() == shape) return x;
  expect(x.shape().broadcasts_to(shape), site, "broadcast_to: {} doesn't broadcast to {}", x.shape(), shape);
  return x.tape().record(Broadcast{}, {x}, broadcast_to(x.value(), shape), {}, line);
}

Var permute(const Var& x, std::span<const int> axes, SourceLine line) {
  const Site site = site_of("permute", x, line);
  expect(static_cast<int>(axes.size()) == x.rank(), site, "permute: {} has {} axes, but {} were named", x.shape(),
         x.rank(), axes.size());
  std::uint32_t seen = 0;
  for (const int axis : axes) {
    expect(axis >= 0 && axis < x.rank() && (seen >> axis & 1u) == 0, site,
           "permute: the axes must be 0 to {}, each once, got [{}]", x.rank() - 1, fmt::join(axes, ", "));
    seen |= 1u << axis;
  }
  return x.tape().record(Permute(axes), {x}, permute(x.value(), axes), {}, line);
}

Var permute(const Var& x, std::initializer_list<int> axes, SourceLine line) {
  return permute(x, std::span<const int>(axes.begin(), axes.size()), line);
}

Var transpose(const Var& x, SourceLine line) {
  const Site site = site_of("transpose", x, line);
  expect(x.rank() >= 2, site, "transpose: expected at least two axes, got {}", x.shape());
  return transpose(x, -2, -1, line);
}

Var transpose(const Var& x, int a, int b, SourceLine line) {
  const Site site = site_of("transpose", x, line);
  std::array<int, Shape::kMaxRank> axes{};
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[static_cast<std::size_t>(one_axis("transpose", x, a, site))],
            axes[static_cast<std::size_t>(one_axis("transpose", x, b, site))]);
  return permute(x, std::span<const int>(axes.data(), static_cast<std::size_t>(x.rank())), line);
}

Var unsqueeze(const Var& x, int axis, SourceLine line) {
  const Site site = site_of("unsqueeze", x, line);
  expect(axis >= -x.rank() - 1 && axis <= x.rank(), site, "unsqueeze: axis {} is out of range for a new axis of {}",
         axis, x.shape());
  std::vector<Index> sizes(x.shape().begin(), x.shape().end());
  sizes.insert(sizes.begin() + (axis < 0 ? axis + x.rank() + 1 : axis), 1);
  return reshape(x, Shape(std::span<const Index>(sizes)), line);
}

Var squeeze(const Var& x, int axis, SourceLine line) {
  const Site site = site_of("squeeze", x, line);
  axis = one_axis("squeeze", x, axis, site);
  expect(x.dim(axis) == 1, site, "squeeze: axis {} of {} has size {}, not 1", axis, x.shape(), x.dim(axis));
  std::vector<Index> sizes(x.shape().begin(), x.shape().end());
  sizes.erase(sizes.begin() + axis);
  return reshape(x, Shape(std::span<const Index>(sizes)), line);
}

Var flatten(const Var& x, int first, int last, SourceLine line) {
  const Site site = site_of("flatten", x, line);
  if (x.rank() == 0) return reshape(x, {1}, line);
  first = one_axis("flatten", x, first, site);
  last = one_axis("flatten", x, last, site);
  expect(first <= last, site, "flatten: axis {} stands behind axis {}", first, last);
  std::vector<Index> sizes(x.shape().begin(), x.shape().begin() + first);
  Index product = 1;
  for (int axis = first; axis <= last; ++axis) product *= x.dim(axis);
  sizes.push_back(product);
  sizes.insert(sizes.end(), x.shape().begin() + last + 1, x.shape().end());
  return reshape(x, Shape(std::span<const Index>(sizes)), line);
}

}  // namespace jnorm
