#include <jnorm/autograd/catalogue/case_list.hpp>

namespace jnorm::catalogue {

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
}

}  // namespace jnorm::catalogue
