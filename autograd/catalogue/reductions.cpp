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
  struct Reduction {
    const char* name;
    Var (*all)(const Var&, SourceLine);
    Var (*some)(const Var&, std::initializer_list<int>, Keep, SourceLine);
  };
  for (const auto& [name, all, some] :
       {Reduction{"max", max, max}, Reduction{"min", min, min}, Reduction{"logsumexp", logsumexp, logsumexp},
        Reduction{"l1_norm", l1_norm, l1_norm}, Reduction{"l2_norm", l2_norm, l2_norm},
        Reduction{"max_norm", max_norm, max_norm}}) {
    const auto over_all = [f = all](Vars x) { return f(x[0], SourceLine::here()); };
    const auto over = [f = some](std::initializer_list<int> axes, Keep keep) {
      return [f, axes = std::vector<int>(axes), keep](Vars x) {
        return axes.size() == 1 ? f(x[0], {axes[0]}, keep, SourceLine::here())
                                : f(x[0], {axes[0], axes[1]}, keep, SourceLine::here());
      };
    };
    list.add(name, "over all of [2, 3]", over_all, {list.apart({2, 3})});
    list.add(name, "over all of []", over_all, {list.apart({})});
    list.add(name, "[2, 3, 4] over the last axis", over({-1}, Keep::no), {list.apart({2, 3, 4})});
    list.add(name, "[2, 3, 2, 2] over 1 and -1, kept", over({1, -1}, Keep::yes), {list.apart({2, 3, 2, 2})});
    list.add(name, "[3, 4] over 0", over({0}, Keep::no), {list.apart({3, 4})});
    list.add(name, "[0, 3] over 1", over({1}, Keep::no), {list.apart({0, 3})});
  }
  for (const int correction : {0, 1}) {
    const std::string which = correction == 0 ? "biased, " : "unbiased, ";
    list.add("variance", which + "over all of [2, 3]", [=](Vars x) { return variance(x[0], correction); },
             {list.normal({2, 3})});
    list.add("variance", which + "[2, 3, 4] over 0 and -1, kept",
             [=](Vars x) {
               return variance(x[0], {0, -1}, correction, Keep::yes);
             },
             {list.normal({2, 3, 4})});
    list.add("standard_deviation", which + "[3, 4] over -1",
             [=](Vars x) { return standard_deviation(x[0], {-1}, correction); }, {list.normal({3, 4})});
  }
  list.add("variance", "[0, 3] over 1", [](Vars x) { return variance(x[0], {1}); }, {list.normal({0, 3})});
}

}  // namespace jnorm::catalogue
