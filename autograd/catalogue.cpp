#include <jnorm/autograd/catalogue.hpp>

#include <jnorm/core/random.hpp>

namespace jnorm {

namespace {

using Vars = std::span<const Var>;

class CaseList {
 public:
  explicit CaseList(std::uint64_t seed) : rng_(seed) {}

  void add(std::string operation, std::string variant, DifferentiableFunction function, std::vector<Tensor> inputs) {
    cases_.push_back({std::move(operation), std::move(variant), std::move(function), std::move(inputs)});
  }
  // The case that was added last is of a norm with this Jacobian.
  void with_closed_form(std::function<NormJacobian(std::span<const Tensor>)> closed_form) {
    cases_.back().closed_form = std::move(closed_form);
  }

  // One case a shape, for an operation of one operand.
  void add_unary(const char* operation, Var (*function)(const Var&, SourceLine), Tensor (CaseList::*draw)(const Shape&),
                 std::initializer_list<Shape> shapes = {{3, 4}, {1}, {}, {0, 3}}) {
    for (const Shape& shape : shapes) {
      add(operation, to_string(shape), [function](Vars x) { return function(x[0], SourceLine::here()); },
          {(this->*draw)(shape)});
    }
  }

  Tensor normal(const Shape& shape) { return randn(shape, rng_, DType::float64); }
  // Between 0.5 and 2.
  Tensor positive(const Shape& shape) { return rand_uniform(shape, rng_, 0.5, 2.0, DType::float64); }
  // Of either sign, 0.5 to 2 in size.
  Tensor off_zero(const Shape& shape) { return multiply(sign(normal(shape)), positive(shape)); }
  Tensor tokens(const Shape& shape, Index below) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(shape.size()));
    for (auto& value : values) value = static_cast<std::int32_t>(rng_.below(below));
    return indices(shape, values);
  }

  std::vector<OperationCase> take() { return std::move(cases_); }

 private:
  Rng rng_;
  std::vector<OperationCase> cases_;
};

void add_arithmetic(CaseList& list) {
  struct Binary {
    const char* name;
    Var (*function)(const Var&, const Var&, SourceLine);
  };
  for (const auto& [name, function] :
       {Binary{"add", add}, Binary{"subtract", subtract}, Binary{"multiply", multiply}, Binary{"divide", divide}}) {
    const auto call = [f = function](Vars x) { return f(x[0], x[1], SourceLine::here()); };
    list.add(name, "[3, 4] and [3, 4]", call, {list.normal({3, 4}), list.off_zero({3, 4})});
    list.add(name, "[5, 1] and [1, 4]", call, {list.normal({5, 1}), list.off_zero({1, 4})});
    list.add(name, "[] and [2]", call, {list.normal({}), list.off_zero({2})});
    list.add(name, "x and x", [f = function](Vars x) { return f(x[0], x[0], SourceLine::here()); },
             {list.off_zero({4})});
    list.add(name, "[0, 3] and [3]", call, {list.normal({0, 3}), list.off_zero({3})});
  }
  list.add("affine", "3 x - 2", [](Vars x) { return affine(x[0], 3.0, -2.0); }, {list.normal({2, 3})});
  list.add("affine", "-x", [](Vars x) { return -x[0]; }, {list.normal({2, 3})});
}

void add_functions(CaseList& list) {
  list.add_unary("exp", exp, &CaseList::normal);
  list.add_unary("log", log, &CaseList::positive);
  list.add_unary("sqrt", sqrt, &CaseList::positive);
  list.add_unary("rsqrt", rsqrt, &CaseList::positive);
  list.add_unary("reciprocal", reciprocal, &CaseList::positive);
  list.add_unary("square", square, &CaseList::normal);
  list.add_unary("tanh", tanh, &CaseList::normal);
  list.add_unary("erf", erf, &CaseList::normal);
  list.add_unary("abs", abs, &CaseList::off_zero);
  list.add_unary("sign", sign, &CaseList::off_zero);
  list.add_unary("relu", relu, &CaseList::off_zero);
  list.add_unary("gelu", gelu, &CaseList::normal);
  list.add_unary("gelu_tanh", gelu_tanh, &CaseList::normal);
}

void add_shapes(CaseList& list) {
  list.add("reshape", "[2, 6] to [3, 4]", [](Vars x) { return reshape(x[0], {3, 4}); }, {list.normal({2, 6})});
  list.add("broadcast", "[4] to [2, 3, 4]", [](Vars x) { return broadcast_to(x[0], {2, 3, 4}); }, {list.normal({4})});
  list.add("broadcast", "[3, 1] to [2, 3, 4]",
           [](Vars x) {
             return broadcast_to(x[0], {2, 3, 4});
           },
           {list.normal({3, 1})});
  list.add("broadcast", "[] to [2, 2]", [](Vars x) { return broadcast_to(x[0], {2, 2}); }, {list.normal({})});
  list.add("permute", "[2, 3, 4] by 2, 0, 1",
           [](Vars x) {
             return permute(x[0], {2, 0, 1});
           },
           {list.normal({2, 3, 4})});
  list.add("permute", "transpose of [3, 4]", [](Vars x) { return transpose(x[0]); }, {list.normal({3, 4})});
  list.add("sum", "over all of [2, 3]", [](Vars x) { return sum(x[0]); }, {list.normal({2, 3})});
  list.add("sum", "[2, 3, 4] over axis 1", [](Vars x) { return sum(x[0], {1}); }, {list.normal({2, 3, 4})});
  list.add("sum", "[2, 3, 4] over 0 and -1, kept",
           [](Vars x) {
             return sum(x[0], {0, -1}, Keep::yes);
           },
           {list.normal({2, 3, 4})});
  list.add("mean", "[2, 3, 4] over the last axis", [](Vars x) { return mean(x[0], {-1}); }, {list.normal({2, 3, 4})});
}

void add_products(CaseList& list) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const auto call = [ta, tb](Vars x) { return matmul(x[0], x[1], ta, tb); };
      const std::string variant = std::string(ta ? "a^T " : "a ") + (tb ? "b^T" : "b");
      list.add("matmul", variant, call,
               {list.normal(ta ? Shape{4, 3} : Shape{3, 4}), list.normal(tb ? Shape{5, 4} : Shape{4, 5})});
      list.add("matmul", variant + ", two batches", call,
               {list.normal(ta ? Shape{2, 4, 3} : Shape{2, 3, 4}), list.normal(tb ? Shape{2, 5, 4} : Shape{2, 4, 5})});
    }
  }
  list.add("linear", "with bias", [](Vars x) { return linear(x[0], x[1], x[2]); },
           {list.normal({2, 3, 4}), list.normal({5, 4}), list.normal({5})});
  list.add("linear", "without bias", [](Vars x) { return linear(x[0], x[1]); },
           {list.normal({3, 4}), list.normal({5, 4})});
  list.add("linear", "no rows", [](Vars x) { return linear(x[0], x[1], x[2]); },
           {list.normal({0, 4}), list.normal({5, 4}), list.normal({5})});
}

using Tensors = std::span<const Tensor>;

void add_norms(CaseList& list) {
  for (const Shape& shape : {Shape{4, 8}, Shape{1, 1}, Shape{0, 8}, Shape{2, 3, 5}, Shape{6}}) {
    const Shape width{shape.last()};
    const std::string where = to_string(shape);
    list.add("layer_norm", where, [](Vars x) { return layer_norm(x[0], x[1], x[2]); },
             {list.normal(shape), list.normal(width), list.normal(width)});
    list.with_closed_form([](Tensors x) { return layer_norm_jacobian(x[0], x[1], kNormEps); });
    list.add("rms_norm", where, [](Vars x) { return rms_norm(x[0], x[1]); }, {list.normal(shape), list.normal(width)});
    list.with_closed_form([](Tensors x) { return rms_norm_jacobian(x[0], x[1], kNormEps); });
  }
  list.add("layer_norm", "without gamma and beta", [](Vars x) { return layer_norm(x[0]); }, {list.normal({3, 6})});
  list.with_closed_form([](Tensors x) { return layer_norm_jacobian(x[0], {}, kNormEps); });
  list.add("layer_norm", "without beta", [](Vars x) { return layer_norm(x[0], x[1]); },
           {list.normal({3, 6}), list.normal({6})});
  list.add("layer_norm", "without gamma", [](Vars x) { return layer_norm(x[0], {}, x[1]); },
           {list.normal({3, 6}), list.normal({6})});
  list.add("layer_norm", "eps 0.25", [](Vars x) { return layer_norm(x[0], x[1], {}, 0.25); },
           {list.normal({2, 2}), list.normal({2})});
  list.with_closed_form([](Tensors x) { return layer_norm_jacobian(x[0], x[1], 0.25); });
  list.add("rms_norm", "without gamma", [](Vars x) { return rms_norm(x[0]); }, {list.normal({3, 6})});
  list.with_closed_form([](Tensors x) { return rms_norm_jacobian(x[0], {}, kNormEps); });
}

void add_losses(CaseList& list) {
  for (const Shape& shape : {Shape{3, 5}, Shape{1, 1}, Shape{0, 4}, Shape{2, 2, 3}}) {
    list.add("softmax", to_string(shape), [](Vars x) { return softmax(x[0]); }, {list.normal(shape)});
    list.add("log_softmax", to_string(shape), [](Vars x) { return log_softmax(x[0]); }, {list.normal(shape)});
  }
  const Tensor targets = list.tokens({2, 3}, 5);
  list.add("cross_entropy", "[2, 3, 5]", [targets](Vars x) { return cross_entropy(x[0], targets); },
           {list.normal({2, 3, 5})});
  const std::vector<std::int32_t> some{2, kIgnoreIndex, 0};
  const Tensor ignoring = indices({3}, some);
  list.add("cross_entropy", "one target ignored", [ignoring](Vars x) { return cross_entropy(x[0], ignoring); },
           {list.normal({3, 4})});
  const Tensor tokens = list.tokens({2, 4}, 3);
  list.add("embedding", "3 rows, 8 tokens", [tokens](Vars x) { return embedding(x[0], tokens); },
           {list.normal({3, 5})});
}

void add_attention(CaseList& list) {
  const auto attend = [](Index heads) { return [heads](Vars x) { return causal_attention(x[0], x[1], x[2], heads); }; };
  for (const Shape& shape : {Shape{2, 4, 6}, Shape{1, 1, 2}}) {
    list.add("causal_attention", to_string(shape) + ", 2 heads", attend(2),
             {list.normal(shape), list.normal(shape), list.normal(shape)});
  }
  list.add("causal_attention", "of x, x, x", [](Vars x) { return causal_attention(x[0], x[0], x[0], 1); },
           {list.normal({1, 5, 3})});
}

}  // namespace

std::vector<OperationCase> operation_cases(std::uint64_t seed) {
  CaseList list(seed);
  add_arithmetic(list);
  add_functions(list);
  add_shapes(list);
  add_products(list);
  add_norms(list);
  add_losses(list);
  add_attention(list);
  return list.take();
}

GradientReport check_operation(const OperationCase& operation, const GradientCheckOptions& options) {
  GradientReport report = check_gradients(operation.function, operation.inputs, options);
  if (operation.closed_form) {
    const NormJacobian closed_form = operation.closed_form(operation.inputs);
    const auto by_formula = [&](const Tensor& u) { return closed_form.apply_transposed(u); };
    report.witnesses.push_back(compare_vjp(operation.function, operation.inputs, "closed form", by_formula, options));
  }
  return report;
}

}  // namespace jnorm
