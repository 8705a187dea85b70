#include <jnorm/autograd/catalogue/case_list.hpp>

namespace jnorm::catalogue {

void add_losses(CaseList& list) {
  for (const Shape& shape : {Shape{3, 5}, Shape{1, 1}, Shape{0, 4}, Shape{2, 2, 3}}) {
    list.add("softmax", to_string(shape), [](Vars x) { return softmax(x[0]); }, {list.normal(shape)});
    list.add("log_softmax", to_string(shape), [](Vars x) { return log_softmax(x[0]); }, {list.normal(shape)});
  }
  const Tensor targets = list.tokens({2, 3}, 5);
  list.add("cross_entropy", "[2, 3, 5]", [targets](Vars x) { return cross_entropy(x[0], targets); },
           {list.normal({2, 3, 5})});
  const std::vector<std::int32_t> some{2, kIgnoreIndex, 0};
  const Tensor ignoring = indices({3}, some);
  list.add("cross_entropy", "one target ignored", [ignoring](Vars x) { return cross_entropy(x[0], ignoring); },
           {list.normal({3, 4})});
}

}  // namespace jnorm::catalogue
