#include <jnorm/autograd/catalogue/case_list.hpp>

namespace jnorm::catalogue {

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

}  // namespace jnorm::catalogue
