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
  list.add_unary("silu", silu, &CaseList::normal);
  list.add_unary("log1p", log1p, &CaseList::positive);
  list.add_unary("expm1", expm1, &CaseList::normal);
  list.add_unary("sigmoid", sigmoid, &CaseList::normal);
  for (const double p : {-1.5, 0.0, 0.5, 1.0, 2.0}) {
    const auto call = [p](Vars x) { return pow(x[0], p); };
    list.add("pow", "x^" + std::to_string(p).substr(0, 4), call, {list.positive({3, 4})});
  }
  list.add("pow", "x^3 of either sign", [](Vars x) { return pow(x[0], 3.0); }, {list.off_zero({2, 3})});
  list.add("pow", "x^2 at 0", [](Vars x) { return pow(x[0], 2.0); }, {tensor({0.0, 1.0}, DType::float64)});
  const auto power = [](Vars x) { return pow(x[0], x[1]); };
  list.add("pow", "[3, 4]^[3, 4]", power, {list.positive({3, 4}), list.normal({3, 4})});
  list.add("pow", "[5, 1]^[1, 4]", power, {list.positive({5, 1}), list.normal({1, 4})});
  list.add("pow", "[0, 3]^[]", power, {list.positive({0, 3}), list.normal({})});
  list.add("pow", "x^x", [](Vars x) { return pow(x[0], x[0]); }, {list.positive({4})});
}

}  // namespace jnorm::catalogue
