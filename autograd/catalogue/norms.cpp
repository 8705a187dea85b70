#include <jnorm/autograd/catalogue/case_list.hpp>

namespace jnorm::catalogue {

namespace {

void add_scale_norm(CaseList& list) {
  for (const Shape& shape : {Shape{4, 8}, Shape{1, 1}, Shape{0, 8}, Shape{3, 0}, Shape{2, 3, 5}, Shape{6}}) {
    list.add("scale_norm", to_string(shape), [](Vars x) { return scale_norm(x[0], x[1]); },
             {list.off_zero(shape), list.off_zero({})});
    list.with_closed_form([](Tensors x) { return scale_norm_jacobian(x[0], x[1].item(), kNormEps); });
  }
  list.add("scale_norm", "g of shape [1]", [](Vars x) { return scale_norm(x[0], x[1]); },
           {list.off_zero({3, 4}), list.off_zero({1})});
  list.add("scale_norm", "without g", [](Vars x) { return scale_norm(x[0]); }, {list.off_zero({3, 6})});
  list.with_closed_form([](Tensors x) { return scale_norm_jacobian(x[0], 1.0, kNormEps); });
  list.add("scale_norm", "eps 0", [](Vars x) { return scale_norm(x[0], x[1], 0.0); },
           {list.off_zero({3, 4}), list.off_zero({})});
  list.with_closed_form([](Tensors x) { return scale_norm_jacobian(x[0], x[1].item(), 0.0); });
  list.add("scale_norm", "eps 0.25", [](Vars x) { return scale_norm(x[0], x[1], 0.25); },
           {list.normal({2, 2}), list.off_zero({})});
  list.with_closed_form([](Tensors x) { return scale_norm_jacobian(x[0], x[1].item(), 0.25); });
}

void add_dynamic_tanh(CaseList& list) {
  for (const Shape& shape : {Shape{4, 8}, Shape{1, 1}, Shape{0, 8}, Shape{3, 0}, Shape{2, 3, 5}, Shape{6}}) {
    const Shape width{shape.last()};
    list.add("dynamic_tanh", to_string(shape), [](Vars x) { return dynamic_tanh(x[0], x[1], x[2], x[3]); },
             {list.normal(shape), list.off_zero({}), list.normal(width), list.normal(width)});
    list.with_closed_form([](Tensors x) { return dynamic_tanh_jacobian(x[0], x[1].item(), x[2]); });
  }
  list.add("dynamic_tanh", "without gamma and beta", [](Vars x) { return dynamic_tanh(x[0], x[1]); },
           {list.normal({3, 6}), list.off_zero({1})});
  list.with_closed_form([](Tensors x) { return dynamic_tanh_jacobian(x[0], x[1].item(), {}); });
  list.add("dynamic_tanh", "without beta", [](Vars x) { return dynamic_tanh(x[0], x[1], x[2]); },
           {list.normal({3, 6}), list.off_zero({}), list.normal({6})});
  list.add("dynamic_tanh", "without gamma", [](Vars x) { return dynamic_tanh(x[0], x[1], {}, x[2]); },
           {list.normal({3, 6}), list.off_zero({}), list.normal({6})});
}

// A norm over channels, and its Jacobian for x [N, C, ...] if that is what x is.
struct ChannelNorm {
  std::function<Var(const Var& x, const Var& gamma, const Var& beta)> norm;
  std::function<NormJacobian(const Tensor& x, const Tensor& gamma)> jacobian;
};

void add_channel_norm(CaseList& list, const char* name, const std::string& note, const Shape& shape, int axis,
                      const ChannelNorm& of) {
  const Shape width{shape[axis]};
  const bool has_closed_form = shape.resolve_axis(axis) == 1;
  const auto with_closed_form = [&](auto gamma) {
    if (has_closed_form) list.with_closed_form([=](Tensors x) { return of.jacobian(x[0], gamma(x)); });
  };
  const auto first_parameter = [](Tensors x) { return x[1]; };
  const auto no_gamma = [](Tensors) { return Tensor(); };
  const std::string where = to_string(shape) + ", axis " + std::to_string(axis) + note;
  list.add(name, where, [=](Vars x) { return of.norm(x[0], x[1], x[2]); },
           {list.normal(shape), list.normal(width), list.normal(width)});
  with_closed_form(first_parameter);
  if (shape.rank() < 3) return;
  list.add(name, where + ", without gamma and beta", [=](Vars x) { return of.norm(x[0], {}, {}); },
           {list.normal(shape)});
  with_closed_form(no_gamma);
  list.add(name, where + ", without beta", [=](Vars x) { return of.norm(x[0], x[1], {}); },
           {list.normal(shape), list.normal(width)});
  with_closed_form(first_parameter);
  list.add(name, where + ", without gamma", [=](Vars x) { return of.norm(x[0], {}, x[1]); },
           {list.normal(shape), list.normal(width)});
  with_closed_form(no_gamma);
}

void add_group_norm(CaseList& list) {
  const auto add = [&](const Shape& shape, int axis, Index groups, double eps = kNormEps) {
    const std::string note = ", " + std::to_string(groups) + " groups" + (eps == kNormEps ? "" : ", eps 0.25");
    const ChannelNorm of{
        [=](const Var& x, const Var& gamma, const Var& beta) {
          return group_norm(x, groups, gamma, beta, {.eps = eps, .channel_axis = axis});
        },
        [=](const Tensor& x, const Tensor& gamma) { return group_norm_jacobian(x, groups, gamma, eps); }};
    add_channel_norm(list, "group_norm", note, shape, axis, of);
  };
  add({3, 8}, -1, 2);
  add({2, 2, 6}, -1, 1);
  add({2, 6, 2}, 1, 3);
  add({2, 4, 3, 2}, 1, 2);
  add({4, 2}, 0, 2, 0.25);
  add({2, 4}, -1, 2, 0.25);
  add({2, 3}, -1, 3);
  add({0, 4}, -1, 2);
  add({3, 0}, -1, 2);
  add({2, 4, 0}, 1, 2);
}

// Every third position is left out.
Tensor some_mask(const Shape& shape) {
  std::vector<std::int32_t> flags(static_cast<std::size_t>(shape.size()));
  for (std::size_t i = 0; i < flags.size(); ++i) flags[i] = i % 3 == 1 ? 0 : 1;
  return indices(shape, flags);
}

void add_batch_norm(CaseList& list) {
  const auto add = [&](const Shape& shape, int axis, const char* note = "", const Tensor& mask = {},
                       double eps = kNormEps) {
    const ChannelNorm of{[=](const Var& x, const Var& gamma, const Var& beta) {
                           return batch_norm(x, gamma, beta, {.eps = eps, .channel_axis = axis, .mask = mask}).y;
                         },
                         [=](const Tensor& x, const Tensor& gamma) {
                           const Tensor by_channel =  // [N] or [N, T] -> [N] or [N, 1, T]
                               mask.defined() && x.rank() == 3 ? mask.reshape({x.dim(0), 1, x.dim(2)}) : mask;
                           return batch_norm_jacobian(x, gamma, eps, by_channel);
                         }};
    add_channel_norm(list, "batch_norm", note, shape, axis, of);
  };
  add({5, 3}, -1);
  add({2, 3, 2}, -1);
  add({3, 2, 4}, 1);
  add({2, 2, 2, 2}, 1);
  add({3, 6}, 0);
  add({2, 3}, -1, ", eps 0.25", {}, 0.25);
  add({0, 3}, -1);
  add({4, 0}, -1);
  add({0, 3, 2}, 1);
  add({9, 2}, -1, ", mask", some_mask({9}));
  add({3, 2, 4}, 1, ", mask", some_mask({3, 4}));
  add({3, 2}, -1, ", nothing counts", indices({3}, std::vector<std::int32_t>{0, 0, 0}));
}

void add_batch_norm_evaluation(CaseList& list) {
  const auto add = [&](const Shape& shape, int axis) {
    const Tensor mean = list.normal({shape[axis]}), variance = list.positive({shape[axis]});
    const ChannelNorm of{[=](const Var& x, const Var& gamma, const Var& beta) {
                           return batch_norm_evaluation(x, mean, variance, gamma, beta, {.channel_axis = axis});
                         },
                         [=](const Tensor& x, const Tensor& gamma) {
                           return batch_norm_evaluation_jacobian(x, gamma, variance, kNormEps);
                         }};
    add_channel_norm(list, "batch_norm_evaluation", "", shape, axis, of);
  };
  add({4, 3}, -1);
  add({1, 1}, -1);
  add({2, 3, 4}, 1);
  add({2, 2, 3}, -1);
  add({0, 3}, -1);
  add({4, 0}, -1);
}

}  // namespace

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
  add_scale_norm(list);
  add_dynamic_tanh(list);
  add_group_norm(list);
  add_batch_norm(list);
  add_batch_norm_evaluation(list);
}

}  // namespace jnorm::catalogue
