#include <jnorm/autograd/catalogue.hpp>
#include <jnorm/autograd/catalogue/case_list.hpp>

namespace jnorm {

std::vector<OperationCase> operation_cases(std::uint64_t seed) {
  catalogue::CaseList list(seed);
  catalogue::add_arithmetic(list);
  catalogue::add_functions(list);
  catalogue::add_shapes(list);
  catalogue::add_reductions(list);
  catalogue::add_products(list);
  catalogue::add_embeddings(list);
  catalogue::add_norms(list);
  catalogue::add_losses(list);
  catalogue::add_attention(list);
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
