#include <jnorm/autograd/second_order.hpp>

#include <jnorm/autograd/linear_map.hpp>
#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

void expect_scalar(const char* what, const Var& y, SourceLine line) {
  expect(y.defined(), line, "{}: got a Var that was never recorded", what);
  expect(y.value().size() == 1, line, "{}: y must have one element, got shape {}", what, y.shape());
}

void expect_directions(std::span<const Var> xs, std::span<const Tensor> vs, SourceLine line) {
  expect(xs.size() == vs.size(), line, "hessian_vector_product: {} variables need as many vectors, got {}", xs.size(),
         vs.size());
  for (std::size_t i = 0; i < xs.size(); ++i) {
    expect(xs[i].defined() && vs[i].defined(), line, "hessian_vector_product: variable or vector {} is undefined", i);
    expect(vs[i].shape() == xs[i].shape() && vs[i].dtype() == xs[i].dtype(), line,
           "hessian_vector_product: vector {} must be {} of {}, as its variable, got {} of {}", i, xs[i].shape(),
           xs[i].dtype(), vs[i].shape(), vs[i].dtype());
  }
}

Tensor zeros_like(const Var& x) { return zeros(x.shape(), x.dtype(), x.value().device()); }

}  // namespace

// H v is the gradient of <gradient of y, v>.
std::vector<Tensor> hessian_vector_product(const Var& y, std::span<const Var> xs, std::span<const Tensor> vs,
                                           SourceLine line) {
  expect_scalar("hessian_vector_product", y, line);
  expect_directions(xs, vs, line);
  Tape& tape = y.tape();
  const std::vector<Var> gradients = tape.recorded_gradients(y, xs, {}, line);
  Var slope;  // of y along v
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const Var part = sum(multiply(gradients[i], tape.constant(vs[i], "", line), line), line);
    slope = slope.defined() ? add(slope, part, line) : part;
  }
  std::vector<Tensor> products;
  if (slope.defined()) products = tape.gradients(slope, xs, {}, line);
  products.resize(xs.size());
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (!products[i].defined()) products[i] = zeros_like(xs[i]);
  }
  return products;
}

Tensor hessian_vector_product(const Var& y, const Var& x, const Tensor& v, SourceLine line) {
  return hessian_vector_product(y, {&x, 1}, {&v, 1}, line).front();
}

Tensor hessian(const Var& y, const Var& x, SourceLine line) {
  expect_scalar("hessian", y, line);
  expect(x.defined(), line, "hessian: got a Var that was never recorded");
  const Var gradient = y.tape().recorded_gradients(y, {&x, 1}, {}, line).front();
  if (gradient.defined()) return jacobian(gradient, x, line);
  const Index size = x.value().size();
  return zeros({size, size}, x.dtype(), x.value().device());
}

}  // namespace jnorm
