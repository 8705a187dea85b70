// Operations that cut tensors and join them: linear maps whose adjoint is another of them.
//
//   slice      <-> place
//   concat     <-> slices

#include <array>
#include <numeric>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/axes.hpp>
#include <jnorm/autograd/site.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

struct Slice : Primitive<Slice> {
  static constexpr Description kDescription{
      .name = "slice", .inputs = "x", .formula = "y = x[start:stop:step] along each axis"};
  Part part;
  explicit Slice(const Part& chosen) : part(chosen) {}

  template <class Back>
  void pull(Back& back) const {
    if (back.wants(0)) back.give(0, place(back.cotangent(), part, back.shaped(back.input(0).shape())));
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(slice(push.tangent(0), part));
  }
};

struct Place : Primitive<Place> {
  static constexpr Description kDescription{
      .name = "place", .inputs = "x", .formula = "y[start:stop:step] = x along each axis, y = 0 elsewhere"};
  Part part;
  explicit Place(const Part& chosen) : part(chosen) {}

  template <class Back>
  void pull(Back& back) const {
    if (back.wants(0)) back.give(0, slice(back.cotangent(), part));
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(place(push.tangent(0), part, push.shaped(push.output().shape())));
  }
};

struct Concat : Primitive<Concat> {
  static constexpr Description kDescription{
      .name = "concat", .inputs = "a b c d", .formula = "y = a, b, ... one after another along an axis"};
  int axis;
  std::array<Index, Node::kMaxInputs + 1> starts{};  // where each input begins along the axis
  Concat(int along, std::span<const Var> parts) : axis(along) {
    for (std::size_t i = 0; i < parts.size(); ++i) starts[i + 1] = starts[i] + parts[i].dim(axis);
  }

  Part part(const Shape& whole, std::size_t i, int along) const {
    return part_along(whole, along, {.start = starts[i], .stop = starts[i + 1]});
  }
  template <class Back>
  void pull(Back& back) const {
    const auto& dy = back.cotangent();
    for (std::size_t i = 0; i < Node::kMaxInputs; ++i) {
      if (back.wants(i)) back.give(i, slice(dy, part(dy.shape(), i, back.axis(axis))));
    }
  }
  void jvp(Pushforward& push) const override {
    const Shape whole = push.shaped(push.output().shape());
    for (std::size_t i = 0; i < Node::kMaxInputs; ++i) {
      if (push.has(i)) push.give(place(push.tangent(i), part(whole, i, push.axis(axis)), whole));
    }
  }
};

Var concat_few(std::span<const Var> parts, int axis, SourceLine line) {
  if (parts.size() == 1) return parts.front();
  Tape& tape = parts.front().tape();
  std::vector<Tensor> values;
  for (const Var& part : parts) values.push_back(part.value());
  return tape.record_node(tape.keep(Concat(axis, parts)), parts, concat(values, axis), {}, line);
}

void expect_steps(std::span<const Range> ranges, const Site& site) {
  for (const Range& range : ranges) {
    expect(range.step > 0, site, "slice: a step must be positive, got {}", range.step);
  }
}

void expect_parts(const char* name, std::span<const Var> parts, SourceLine line) {
  expect(!parts.empty(), line, "{}: at least one value is needed, got none", name);
}

}  // namespace

Var slice(const Var& x, const Part& part, SourceLine line) {
  const Site site = site_of("slice", x, line);
  const bool whole =
      part.sizes == x.shape() && part.starts == decltype(part.starts){} &&
      std::all_of(part.steps.begin(), part.steps.begin() + x.rank(), [](Index step) { return step == 1; });
  if (whole) return x;
  Tensor y = at_site(site, [&] { return slice(x.value(), part); });
  return x.tape().record(Slice(part), {x}, std::move(y), {}, line);
}

Var slice(const Var& x, std::initializer_list<Range> ranges, SourceLine line) {
  const Site site = site_of("slice", x, line);
  const std::span<const Range> all(ranges.begin(), ranges.size());
  expect(static_cast<int>(all.size()) <= x.rank(), site, "slice: {} has {} axes, but {} ranges were given", x.shape(),
         x.rank(), all.size());
  expect_steps(all, site);
  return slice(x, part_of(x.shape(), all), line);
}

Var slice(const Var& x, int axis, const Range& range, SourceLine line) {
  const Site site = site_of("slice", x, line);
  axis = one_axis("slice", x, axis, site);
  expect_steps({&range, 1}, site);
  return slice(x, part_along(x.shape(), axis, range), line);
}

Var place(const Var& x, const Part& part, const Shape& whole, SourceLine line) {
  Tensor y = at_site(site_of("place", x, line), [&] { return place(x.value(), part, whole); });
  return x.tape().record(Place(part), {x}, std::move(y), {}, line);
}

Var concat(std::span<const Var> parts, int axis, SourceLine line) {
  expect_parts("concat", parts, line);
  const Var& first = parts.front();
  const Site site = site_of("concat", first, line);
  axis = one_axis("concat", first, axis, site);
  for (const Var& part : parts) {
    expect_same_kind("concat", first, part, site);
    expect(part.rank() == first.rank() && part.shape().with_axis(axis, first.dim(axis)) == first.shape(), site,
           "concat: {} and {} differ in another axis than {}", first.shape(), part.shape(), axis);
  }
  // A tree, since a node has few inputs.
  std::vector<Var> joined(parts.begin(), parts.end());
  while (joined.size() > 1) {
    std::vector<Var> wider;
    for (std::size_t begin = 0; begin < joined.size(); begin += Node::kMaxInputs) {
      const std::size_t count = std::min(Node::kMaxInputs, joined.size() - begin);
      wider.push_back(concat_few(std::span(joined).subspan(begin, count), axis, line));
    }
    joined = std::move(wider);
  }
  return joined.front();
}

Var concat(std::initializer_list<Var> parts, int axis, SourceLine line) {
  return concat(std::span<const Var>(parts.begin(), parts.size()), axis, line);
}

Var stack(std::span<const Var> parts, int axis, SourceLine line) {
  expect_parts("stack", parts, line);
  const Var& first = parts.front();
  const Site site = site_of("stack", first, line);
  expect(axis >= -first.rank() - 1 && axis <= first.rank(), site, "stack: axis {} is out of range for a new axis of {}",
         axis, first.shape());
  std::vector<Var> slices;
  for (const Var& part : parts) {
    expect_same_kind("stack", first, part, site);
    expect(part.shape() == first.shape(), site, "stack: shapes {} and {} differ", first.shape(), part.shape());
  }
  for (const Var& part : parts) slices.push_back(unsqueeze(part, axis, line));
  return concat(slices, axis, line);
}

Var stack(std::initializer_list<Var> parts, int axis, SourceLine line) {
  return stack(std::span<const Var>(parts.begin(), parts.size()), axis, line);
}

std::vector<Var> split(const Var& x, std::initializer_list<Index> sizes, int axis, SourceLine line) {
  const Site site = site_of("split", x, line);
  axis = one_axis("split", x, axis, site);
  const bool fits =
      std::all_of(sizes.begin(), sizes.end(), [&](Index size) { return size >= 0 && size <= x.dim(axis); }) &&
      std::accumulate(sizes.begin(), sizes.end(), Index{0}) == x.dim(axis);
  expect(fits, site, "split: sizes [{}] don't add up to axis {} of {}", fmt::join(sizes, ", "), axis, x.shape());
  std::vector<Var> parts;
  Index start = 0;
  for (const Index size : sizes) {
    parts.push_back(slice(x, axis, {.start = start, .stop = start + size}, line));
    start += size;
  }
  return parts;
}

std::vector<Var> split(const Var& x, Index parts, int axis, SourceLine line) {
  const Site site = site_of("split", x, line);
  axis = one_axis("split", x, axis, site);
  expect(parts > 0 && x.dim(axis) % parts == 0, site, "split: axis {} of {} doesn't fall into {} equal parts", axis,
         x.shape(), parts);
  const Index size = x.dim(axis) / parts;
  std::vector<Var> results;
  for (Index i = 0; i < parts; ++i) {
    results.push_back(slice(x, axis, {.start = i * size, .stop = (i + 1) * size}, line));
  }
  return results;
}

}  // namespace jnorm
