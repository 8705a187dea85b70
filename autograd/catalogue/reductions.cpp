#include <jnorm/autograd/catalogue/case_list.hpp>

namespace jnorm::catalogue {

void add_reductions(CaseList& list) {
  list.add("sum", "over all of [2, 3]", [](Vars x) { return sum(x[0]); }, {list.normal({2, 3})});
  list.add("sum", "[2, 3, 4] over axis 1", [](Vars x) { return sum(x[0], {1}); }, {list.normal({2, 3, 4})});
  list.add("sum", "[2, 3, 4] over 0 and -1, kept",
           [](Vars x) {
             return sum(x[0], {0, -1}, Keep::yes);
           },
           {list.normal({2, 3, 4})});
  list.add("mean", "[2, 3, 4] over the last axis", [](Vars x) { return mean(x[0], {-1}); }, {list.normal({2, 3, 4})});
}

}  // namespace jnorm::catalogue
