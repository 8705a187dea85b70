#include <jnorm/autograd/catalogue/case_list.hpp>

namespace jnorm::catalogue {

void add_norms(CaseList& list) {
  for (const Shape& shape : {Shape{4, 8}, Shape{1, 1}, Shape{0, 8}, Shape{2, 3, 5}, Shape{6}}) {
    const Shape width{shape.last()};
    const std::string where = to_string(shape);
    list.add("layer_norm", where, [](Vars x) { return layer_norm(x[0], x[1], x[2]); },
             {list.normal(shape), list.normal(width), list.normal(width)});
    list.with_closed_form([](Tensors x) { return layer_norm_jacobian(x[0], x[1], kNormEps); });
    // A row of one small number would bend on the scale of sqrt(eps), which differences don't resolve.
    list.add("rms_norm", where, [](Vars x) { return rms_norm(x[0], x[1]); },
             {list.off_zero(shape), list.normal(width)});
    list.with_closed_form([](Tensors x) { return rms_norm_jacobian(x[0], x[1], kNormEps); });
  }
  list.add("layer_norm", "without gamma and beta", [](Vars x) { return layer_norm(x[0]); }, {list.normal({3, 6})});
  list.with_closed_form([](Tensors x) { return layer_norm_jacobian(x[0], {}, kNormEps); });
  list.add("layer_norm", "without beta", [](Vars x) { return layer_norm(x[0], x[1]); },
           {list.normal({3, 6}), list.normal({6})});
  list.add("layer_norm", "without gamma", [](Vars x) { return layer_norm(x[0], {}, x[1]); },
           {list.normal({3, 6}), list.normal({6})});
  list.add("layer_norm", "eps 0.25", [](Vars x) { return layer_norm(x[0], x[1], {}, 0.25); },
           {list.normal({2, 2}), list.normal({2})});
  list.with_closed_form([](Tensors x) { return layer_norm_jacobian(x[0], x[1], 0.25); });
  list.add("rms_norm", "without gamma", [](Vars x) { return rms_norm(x[0]); }, {list.normal({3, 6})});
  list.with_closed_form([](Tensors x) { return rms_norm_jacobian(x[0], {}, kNormEps); });
}

}  // namespace jnorm::catalogue
