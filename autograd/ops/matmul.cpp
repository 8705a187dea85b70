// Matrix products over the last two axes.
//
//   Y = A B, with A = a or a^T and B = b or b^T
//   dA = dY B^T      dB = A^T dY      Y_dot = A_dot B + A B_dot

#include <vector>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/record.hpp>
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

// The batch axes of a matrix product's operand, followed by these two.
Shape with_matrices(const Shape& batched, const Shape& matrix) {
  std::vector<Index> sizes(batched.begin(), batched.end() - 2);
  sizes.insert(sizes.end(), matrix.end() - 2, matrix.end());
  return Shape(std::span<const Index>(sizes));
}

Shape batches_of(const Shape& a, const Shape& b) {
  const Shape one{1, 1};
  return broadcast_shapes(with_matrices(a, one), with_matrices(b, one));
}

// Throws Error(argument) if the batches don't broadcast or the product has too many elements.
Shape product_shape(Shape a, Shape b, bool transpose_a, bool transpose_b) {
  if (a.rank() == 1) a = a.with_leading(1);
  if (b.rank() == 1) b = b.with_trailing(1);
  return with_matrices(batches_of(a, b), {a[transpose_a ? -1 : -2], b[transpose_b ? -2 : -1]});
}

void expect_product(const Var& a, const Var& b, bool transpose_a, bool transpose_b, const Site& site) {
  expect_same_kind("matmul", a, b, site);
  expect_numbers("matmul", a, site);
  expect(a.rank() >= 1 && b.rank() >= 1, site, "matmul: expected matrices or vectors, got {} and {}", a.shape(),
         b.shape());
  expect((a.rank() > 1 || !transpose_a) && (b.rank() > 1 || !transpose_b), site,
         "matmul: a vector can't be transposed, got {} and {}", a.shape(), b.shape());
  const Index inner_a = a.dim(transpose_a ? -2 : -1);
  const Index inner_b = b.dim(transpose_b || b.rank() == 1 ? -1 : -2);
  expect(inner_a == inner_b, site, "matmul: the inner sizes of {}{} and {}{} are {} and {}", a.shape(),
         transpose_a ? " transposed" : "", b.shape(), transpose_b ? " transposed" : "", inner_a, inner_b);
  at_site("matmul", site, [&] { return product_shape(a.shape(), b.shape(), transpose_a, transpose_b); });
}

}  // namespace

Var matmul(const Var& a, const Var& b, bool transpose_a, bool transpose_b, SourceLine line) {
  const Site site = site_of("matmul", a, line);
  expect_product(a, b, transpose_a, transpose_b, site);
  if (a.rank() == 1)
    return squeeze(matmul(unsqueeze(a, 0, line), b, false, transpose_b, line), b.rank() == 1 ? 0 : -2, line);
  if (b.rank() == 1) return squeeze(matmul(a, unsqueeze(b, 1, line), transpose_a, false, line), -1, line);
  if (a.rank() > 2 && b.rank() == 2 && !transpose_a) {  // one tall product: [..., T, H] -> [... T, H]
    const Var y = matmul(flatten(a, 0, -2, line), b, false, transpose_b, line);
    return reshape(y, a.shape().with_axis(-1, y.dim(-1)), line);
  }
  const Shape batches = batches_of(a.shape(), b.shape());
  const Var left = broadcast_to(a, with_matrices(batches, a.shape()), line);
  const Var right = broadcast_to(b, with_matrices(batches, b.shape()), line);
  return a.tape().record(Matmul(transpose_a, transpose_b), {left, right},
                         matmul(left.value(), right.value(), transpose_a, transpose_b), {}, line);
}

}  // namespace jnorm
