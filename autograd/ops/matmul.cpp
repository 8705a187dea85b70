// Matrix products over the last two axes.
//
//   Y = A B, with A = a or a^T and B = b or b^T
//   dA = dY B^T      dB = A^T dY      Y_dot = A_dot B + A B_dot

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/site.hpp>
#include <jnorm/autograd/sweep.hpp>

namespace jnorm {

namespace {

struct Matmul : Primitive<Matmul> {
  static constexpr Description kDescription{
      .name = "matmul", .inputs = "a b", .formula = "Y = A B", .saved_inputs = 0b11};
  bool transpose_a;
  bool transpose_b;
  Matmul(bool ta, bool tb) : transpose_a(ta), transpose_b(tb) {}

  template <class Back>
  void pull(Back& back) const {
    const auto& dy = back.cotangent();
    if (back.wants(0)) {  // da = dY B^T, transposed if a was: B dY^T
      back.give(0, transpose_a ? matmul(back.input(1), dy, transpose_b, true)
                               : matmul(dy, back.input(1), false, !transpose_b));
    }
    if (back.wants(1)) {  // db = A^T dY, transposed if b was: dY^T A
      back.give(1, transpose_b ? matmul(dy, back.input(0), true, transpose_a)
                               : matmul(back.input(0), dy, !transpose_a, false));
    }
  }
  void jvp(Pushforward& push) const override {
    if (push.has(0)) push.give(matmul(push.tangent(0), push.input(1), transpose_a, transpose_b));
    if (push.has(1)) push.give(matmul(push.input(0), push.tangent(1), transpose_a, transpose_b));
  }
};

}  // namespace

Var matmul(const Var& a, const Var& b, bool transpose_a, bool transpose_b, SourceLine line) {
  const Site site{a.tape(), line};
  expect_same_kind("matmul", a, b, site);
  expect(a.rank() >= 2 && a.rank() == b.rank(), site,
         "matmul: expected two matrices, or as many batch axes on both, got {} and {}", a.shape(), b.shape());
  for (int axis = 0; axis < a.rank() - 2; ++axis) {
    expect(a.dim(axis) == b.dim(axis), site, "matmul: the batch axes of {} and {} differ", a.shape(), b.shape());
  }
  const Index inner_a = a.dim(transpose_a ? -2 : -1);
  const Index inner_b = b.dim(transpose_b ? -1 : -2);
  expect(inner_a == inner_b, site, "matmul: the inner sizes of {}{} and {}{} are {} and {}", a.shape(),
         transpose_a ? " transposed" : "", b.shape(), transpose_b ? " transposed" : "", inner_a, inner_b);
  return a.tape().record(Matmul(transpose_a, transpose_b), {a, b},
                         matmul(a.value(), b.value(), transpose_a, transpose_b), {}, line);
}

}  // namespace jnorm
