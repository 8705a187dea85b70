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
  const auto product = [](Vars x) { return matmul(x[0], x[1]); };
  list.add("matmul", "[2, 3, 4] with [4, 5]", product, {list.normal({2, 3, 4}), list.normal({4, 5})});
  list.add("matmul", "[3, 4] with [2, 4, 5]", product, {list.normal({3, 4}), list.normal({2, 4, 5})});
  list.add("matmul", "[2, 1, 3, 4] with [5, 4, 2]", product, {list.normal({2, 1, 3, 4}), list.normal({5, 4, 2})});
  list.add("matmul", "[4] with [4]", product, {list.normal({4}), list.normal({4})});
  list.add("matmul", "[4] with [2, 4, 3]", product, {list.normal({4}), list.normal({2, 4, 3})});
  list.add("matmul", "[3, 4] with [4]", product, {list.normal({3, 4}), list.normal({4})});
  list.add("matmul", "[3, 0] with [0, 2]", product, {list.normal({3, 0}), list.normal({0, 2})});
  list.add("matmul", "[0, 3, 4] with [4, 2]", product, {list.normal({0, 3, 4}), list.normal({4, 2})});
  list.add("matmul", "[2, 4, 3]^T with [4, 5]", [](Vars x) { return matmul(x[0], x[1], true); },
           {list.normal({2, 4, 3}), list.normal({4, 5})});
  list.add("linear", "with bias", [](Vars x) { return linear(x[0], x[1], x[2]); },
           {list.normal({2, 3, 4}), list.normal({5, 4}), list.normal({5})});
  list.add("linear", "without bias", [](Vars x) { return linear(x[0], x[1]); },
           {list.normal({3, 4}), list.normal({5, 4})});
  list.add("linear", "no rows", [](Vars x) { return linear(x[0], x[1], x[2]); },
           {list.normal({0, 4}), list.normal({5, 4}), list.normal({5})});
}

}  // namespace jnorm::catalogue
