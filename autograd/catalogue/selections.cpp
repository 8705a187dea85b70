#include <jnorm/autograd/catalogue/case_list.hpp>

namespace jnorm::catalogue {

// Pairs that are never closer than 0.5, so that no step of a difference crosses a kink.
void add_selections(CaseList& list) {
  struct Choice {
    const char* name;
    Var (*function)(const Var&, const Operand&);
  };
  for (const auto& [name, function] : {Choice{"maximum", maximum}, Choice{"minimum", minimum}}) {
    const auto call = [f = function](Vars x) { return f(x[0], x[1] * 2.0); };
    const auto off_tie = [&](const Shape& a, const Shape& b) {
      return std::vector<Tensor>{affine(list.positive(a), 0.1, 0.0), list.off_zero(b)};
    };
    list.add(name, "[3, 4] and [3, 4]", call, off_tie({3, 4}, {3, 4}));
    list.add(name, "[5, 1] and [1, 4]", call, off_tie({5, 1}, {1, 4}));
    list.add(name, "[] and [2, 1, 1, 2]", call, off_tie({}, {2, 1, 1, 2}));
    list.add(name, "[0, 3] and [3]", call, off_tie({0, 3}, {3}));
    list.add(name, "a number", [f = function](Vars x) { return f(x[0], 0.0); }, {list.off_zero({3, 4})});
  }
  for (const Shape& shape : {Shape{3, 4}, Shape{1}, Shape{}, Shape{0, 3}}) {
    list.add("clamp", to_string(shape), [](Vars x) { return clamp(x[0], -0.25, 0.25) + clamp(x[0], {}, 3.0); },
             {list.off_zero(shape)});
  }
  const Tensor some = list.tokens({3, 4}, 2), row = list.tokens({4}, 2);
  list.add("where", "[3, 4]", [some](Vars x) { return where(some, x[0], x[1]); },
           {list.normal({3, 4}), list.normal({3, 4})});
  list.add("where", "a condition of [4], [3, 1] and []", [row](Vars x) { return where(row, x[0], x[1]); },
           {list.normal({3, 1}), list.normal({})});
  list.add("where", "of x and 0", [](Vars x) { return where(greater(x[0].value(), 0.0), square(x[0]), 0.0); },
           {list.off_zero({2, 3})});
  for (const Shape& shape : {Shape{3, 5}, Shape{}, Shape{0, 3}}) {
    for (const double p : {0.5, 1.0}) {
      list.add("dropout", to_string(shape) + (p < 1.0 ? ", p = 0.5" : ", p = 1"),
               [p](Vars x) {
                 Rng rng(7);  // the same mask at every call
                 return square(dropout(x[0], p, rng));
               },
               {list.normal(shape)});
    }
  }
}

}  // namespace jnorm::catalogue
