// GroupNorm of groups that fit on chip, forward: see group_norm_kernels.cuh.

#include <jnorm/cuda/group_norm.hpp>
#include <jnorm/cuda/group_norm_launch.cuh>

namespace jnorm::cuda {

bool group_norm_on_chip(const ChannelLayout& layout, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                        double eps, const Tensor& y, const Tensor& mean, const Tensor& variance, const Tensor& rstd) {
  constexpr const char* operation = "channel_norm";
  bool fits = false;
  dispatch_device(operation, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    GroupNorm<T> norm = group_norm_of<T>(layout, x, gamma);
    norm.beta = input<T>(beta);
    with_group_pack(norm, {norm.beta, output<T>(y)}, [&](auto n) {
      constexpr int pack = n();
      constexpr GroupChoices choices = group_forward_choices(pack, sizeof(T));
      const auto plan = group_plan(group_length(layout) / pack, choices, context_of(x).limits());
      fits = plan.has_value();
      if (!fits) return;
      with_group_team<choices>(*plan, [&]<class Team, int V>() {
        launch(operation, context_of(x), group_config(layout.statistics(), *plan), group_norm_held<Team, T, pack, V>,
               norm, eps, output<T>(y),
               SavedStatistics{output<double>(mean), output<double>(variance), output<double>(rstd)});
      });
    });
  });
  return fits;
}

}  // namespace jnorm::cuda
