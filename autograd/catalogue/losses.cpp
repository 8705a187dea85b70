#include <jnorm/autograd/catalogue/case_list.hpp>

namespace jnorm::catalogue {

namespace {

void add_cross_entropy(CaseList& list, const char* variant, const CrossEntropyOptions& options, const Tensor& targets,
                       const Shape& logits) {
  list.add("cross_entropy", variant, [=](Vars x) { return cross_entropy(x[0], targets, options); },
           {list.normal(logits)});
}

}  // namespace

void add_losses(CaseList& list) {
  for (const Shape& shape : {Shape{3, 5}, Shape{1, 1}, Shape{0, 4}, Shape{2, 2, 3}}) {
    list.add("softmax", to_string(shape), [](Vars x) { return softmax(x[0]); }, {list.normal(shape)});
    list.add("log_softmax", to_string(shape), [](Vars x) { return log_softmax(x[0]); }, {list.normal(shape)});
  }
  list.add("softmax", "over axis 0 of [3, 2, 4]", [](Vars x) { return softmax(x[0], 0); }, {list.normal({3, 2, 4})});
  list.add("log_softmax", "over axis 1 of [2, 3, 4]", [](Vars x) { return log_softmax(x[0], 1); },
           {list.normal({2, 3, 4})});

  const std::vector<std::int32_t> some{2, kIgnoreIndex, 0}, two_rows{1, -1, 3, 0};
  const Tensor ignoring = indices({3}, some), ignoring_minus_one = indices({2, 2}, two_rows);
  const Tensor weights = tensor({0.5, 2.0, 0.0, 1.5}, DType::float64);
  const Shape rows{3, 4}, matrix_of_rows{2, 2, 4};
  add_cross_entropy(list, "[2, 3, 5]", {}, list.tokens({2, 3}, 5), {2, 3, 5});
  add_cross_entropy(list, "[0, 4]", {}, list.tokens({0}, 4), {0, 4});
  add_cross_entropy(list, "one target ignored", {}, ignoring, rows);
  add_cross_entropy(list, "ignore_index -1", {.ignore_index = -1}, ignoring_minus_one, matrix_of_rows);
  add_cross_entropy(list, "ignore_index 0, a class", {.ignore_index = 0}, list.tokens({5}, 3), {5, 3});
  add_cross_entropy(list, "smoothing 0.2", {.label_smoothing = 0.2}, ignoring, rows);
  add_cross_entropy(list, "class weights", {.class_weights = weights}, ignoring, rows);
  add_cross_entropy(list, "sum", {.reduction = Reduction::sum}, ignoring, rows);
  add_cross_entropy(list, "no reduction", {.reduction = Reduction::none}, ignoring, rows);
  const CrossEntropyOptions all{.ignore_index = -1, .label_smoothing = 0.1, .class_weights = weights};
  add_cross_entropy(list, "smoothing, weights, ignored", all, ignoring_minus_one, matrix_of_rows);
  CrossEntropyOptions all_summed = all, all_apart = all;
  all_summed.reduction = Reduction::sum;
  all_apart.reduction = Reduction::none;
  add_cross_entropy(list, "smoothing, weights, ignored, sum", all_summed, ignoring_minus_one, matrix_of_rows);
  add_cross_entropy(list, "smoothing, weights, ignored, no reduction", all_apart, ignoring_minus_one, matrix_of_rows);
}

}  // namespace jnorm::catalogue
