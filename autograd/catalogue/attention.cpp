#include <jnorm/autograd/catalogue/case_list.hpp>

namespace jnorm::catalogue {

void add_attention(CaseList& list) {
  const auto attend = [](Index heads) { return [heads](Vars x) { return causal_attention(x[0], x[1], x[2], heads); }; };
  for (const Shape& shape : {Shape{2, 4, 6}, Shape{1, 1, 2}}) {
    list.add("causal_attention", to_string(shape) + ", 2 heads", attend(2),
             {list.normal(shape), list.normal(shape), list.normal(shape)});
  }
  list.add("causal_attention", "of x, x, x", [](Vars x) { return causal_attention(x[0], x[0], x[0], 1); },
           {list.normal({1, 5, 3})});
}

}  // namespace jnorm::catalogue
