#include <jnorm/autograd/catalogue/case_list.hpp>

namespace jnorm::catalogue {

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

}  // namespace jnorm::catalogue
