// Operations that choose elements by index: linear maps in pairs.
//
//   index_select  <-> index_add
//   gather        <-> scatter_add

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/axes.hpp>
#include <jnorm/autograd/ops/record.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

struct IndexSelect : Primitive<IndexSelect> {
  static constexpr Description kDescription{
      .name = "index_select", .inputs = "x index", .formula = "y_j = x_(index_j) along an axis", .saved_inputs = 0b10};
  int axis;
  explicit IndexSelect(int along) : axis(along) {}

  template <class Back>
  void pull(Back& back) const {
    if (!back.wants(0)) return;
    const Shape whole = back.shaped(back.input(0).shape());
    back.give(0, index_add(back.cotangent(), back.axis(axis), value_of(back.input(1)), whole));
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(index_select(push.tangent(0), push.axis(axis), push.input(1)));
  }
};

struct IndexAdd : Primitive<IndexAdd> {
  static constexpr Description kDescription{.name = "index_add",
                                            .inputs = "x index",
                                            .formula = "y_i = sum of x_j over the j with index_j = i",
                                            .saved_inputs = 0b10};
  int axis;
  explicit IndexAdd(int along) : axis(along) {}

  template <class Back>
  void pull(Back& back) const {
    if (back.wants(0)) back.give(0, index_select(back.cotangent(), back.axis(axis), value_of(back.input(1))));
  }
  void jvp(Pushforward& push) const override {
    if (!push.has(0)) return;
    const Shape whole = push.shaped(push.output().shape());
    push.give(index_add(push.tangent(0), push.axis(axis), push.input(1), whole));
  }
};

struct Gather : Primitive<Gather> {
  static constexpr Description kDescription{.name = "gather",
                                            .inputs = "x index",
                                            .formula = "y = x with its position along an axis replaced by the index",
                                            .saved_inputs = 0b10};
  int axis;
  explicit Gather(int along) : axis(along) {}

  template <class Back>
  void pull(Back& back) const {
    if (!back.wants(0)) return;
    const Shape whole = back.shaped(back.input(0).shape());
    back.give(0, scatter_add(back.cotangent(), axis, value_of(back.input(1)), whole));
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(gather(push.tangent(0), axis, push.input(1)));
  }
};

struct ScatterAdd : Primitive<ScatterAdd> {
  static constexpr Description kDescription{.name = "scatter_add",
                                            .inputs = "x index",
                                            .formula = "y = sum of x over the positions that the index names",
                                            .saved_inputs = 0b10};
  int axis;
  explicit ScatterAdd(int along) : axis(along) {}

  template <class Back>
  void pull(Back& back) const {
    if (back.wants(0)) back.give(0, gather(back.cotangent(), axis, value_of(back.input(1))));
  }
  void jvp(Pushforward& push) const override {
    if (!push.has(0)) return;
    push.give(scatter_add(push.tangent(0), axis, push.input(1), push.shaped(push.output().shape())));
  }
};

// Computes and records; the checks of the computation, which know the shapes, get the place of the call.
template <class Op, class Compute>
Var record_indexed(const Op& operation, const Var& x, const Tensor& index, const Compute& compute, SourceLine line) {
  Tape& tape = x.tape();
  Tensor value = at_site(Site{tape, line}, compute);
  const Var recorded_index = tape.constant(index, "", line);
  return tape.record(operation, {x, recorded_index}, std::move(value), {}, line);
}

void expect_same_rank(const char* name, int rank, const Tensor& index, const Site& site) {
  expect(index.defined() && index.rank() == rank, site, "{}: {} axes need an index of as many, got {}", name, rank,
         index.defined() ? to_string(index.shape()) : "an undefined tensor");
}

}  // namespace

Var index_select(const Var& x, int axis, const Tensor& index, SourceLine line) {
  axis = one_axis("index_select", x, axis, site_of("index_select", x, line));
  return record_indexed(
      IndexSelect(axis), x, index, [&] { return index_select(x.value(), axis, index); }, line);
}

Var index_add(const Var& x, int axis, const Tensor& index, const Shape& whole, SourceLine line) {
  axis = one_axis("index_add", x, axis, site_of("index_add", x, line));
  return record_indexed(
      IndexAdd(axis), x, index, [&] { return index_add(x.value(), axis, index, whole); }, line);
}

Var gather(const Var& x, int axis, const Tensor& index, SourceLine line) {
  const Site site = site_of("gather", x, line);
  axis = one_axis("gather", x, axis, site);
  expect_same_rank("gather", x.rank(), index, site);
  return record_indexed(
      Gather(axis), x, index, [&] { return gather(x.value(), axis, index); }, line);
}

Var scatter_add(const Var& x, int axis, const Tensor& index, const Shape& whole, SourceLine line) {
  const Site site = site_of("scatter_add", x, line);
  axis = one_axis("scatter_add", x, axis, site);
  expect_same_rank("scatter_add", whole.rank(), index, site);
  return record_indexed(
      ScatterAdd(axis), x, index, [&] { return scatter_add(x.value(), axis, index, whole); }, line);
}

}  // namespace jnorm
