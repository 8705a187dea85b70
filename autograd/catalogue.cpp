#include <jnorm/autograd/catalogue.hpp>
#include <jnorm/autograd/catalogue/case_list.hpp>

namespace jnorm {

std::vector<OperationCase> operation_cases(std::uint64_t seed) {
  catalogue::CaseList list(seed);
  list.begin("arithmetic");
  catalogue::add_arithmetic(list);
  list.begin("functions");
  catalogue::add_functions(list);
  list.begin("shapes");
  catalogue::add_shapes(list);
  list.begin("reductions");
  catalogue::add_reductions(list);
  list.begin("products");
  catalogue::add_products(list);
  list.begin("embeddings");
  catalogue::add_embeddings(list);
  list.begin("norms");
  catalogue::add_norms(list);
  list.begin("losses");
  catalogue::add_losses(list);
  list.begin("attention");
  catalogue::add_attention(list);
  list.begin("selections");
  catalogue::add_selections(list);
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
