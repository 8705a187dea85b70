#include <jnorm/autograd/catalogue/case_list.hpp>

namespace jnorm::catalogue {

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

}  // namespace jnorm::catalogue
