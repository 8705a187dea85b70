// GroupNorm of groups that fit on chip, backward: see group_norm_backward_kernels.cuh.

#include <jnorm/cuda/column_parts.cuh>
#include <jnorm/cuda/group_norm.hpp>
#include <jnorm/cuda/group_norm_backward_kernels.cuh>
#include <jnorm/cuda/group_norm_launch.cuh>

namespace jnorm::cuda {

namespace {

constexpr const char* kOperation = "channel_norm_backward";

template <class T>
struct Problem {
  ChannelLayout layout;
  GroupNorm<T> norm;
  GroupGradients<T> out;
  Destination dgamma, dbeta;
  Tensor x;
  bool parameters() const { return dgamma.wanted() || dbeta.wanted(); }

  // Launches what fills partial sums of so many parts, and adds these.
  template <class Fill>
  void with_parts(Index parts, const Fill& fill) {
    Tensor partial;
    if (parameters()) {
      partial = Tensor::uninitialized(Shape{out.copies * parts * 2 * layout.channels}, statistics_dtype(x.dtype()),
                                      x.device());
    }
    out.partial = output<Wide<T>>(partial);
    fill();
    if (!parameters()) return;
    launch_column_parts(kOperation, context_of(x),
                        ColumnGradients<T, Wide<T>>{.partial = out.partial,
                                                    .parts = parts,
                                                    .length = layout.channels,
                                                    .sums = 2,
                                                    .first = output<T>(dgamma.tensor),
                                                    .second = output<T>(dbeta.tensor),
                                                    .add_to_first = dgamma.add,
                                                    .add_to_second = dbeta.add},
                        out.copies);
  }
};

// Channels of several elements. True if a group fits.
template <int N, class T>
bool launch_channels(Problem<T>& problem) {
  constexpr GroupChoices choices = group_backward_choices(N, sizeof(T));
  const ChannelLayout& layout = problem.layout;
  Context& context = context_of(problem.x);
  const auto plan = group_plan(group_length(layout) / N, choices, context.limits());
  if (!plan) return false;
  constexpr Index sums_of_pack = PackSums<Wide<T>, N>::kChannels * sizeof(SumPair<Wide<T>>);
  const bool room_for_sums = problem.parameters() && plan->held_packs > 0;
  const LaunchConfig config = group_config(layout.statistics() * problem.out.copies, *plan,
                                           room_for_sums ? group_length(layout) / N * sums_of_pack : 0);
  problem.with_parts(layout.outer, [&] {
    with_group_team<choices>(*plan, [&]<class Team, int V>() {
      launch(kOperation, context, config, group_norm_backward_held<Team, T, N, V>, problem.norm, problem.out,
             lanes_of_channel(layout.inner / N, *plan));
    });
  });
  return true;
}

// Channels of one element.
template <int N, class T>
bool launch_rows(Problem<T>& problem) {
  constexpr GroupChoices choices = group_rows_choices(N, sizeof(T));
  const ChannelLayout& layout = problem.layout;
  Context& context = context_of(problem.x);
  const auto plan = group_plan(group_length(layout) / N, choices, context.limits());
  if (!plan) return false;
  const GroupWalk walk = group_walk(layout.outer, layout.groups, problem.out.copies, *plan);
  const LaunchConfig config = group_walk_config(walk, problem.out.copies, *plan, N * Index{sizeof(Wide<T>)});
  problem.with_parts(walk.parts, [&] {
    with_group_team<choices>(*plan, [&]<class Team, int V>() {
      launch(kOperation, context, config, group_norm_backward_rows<Team, T, N, V>, problem.norm, problem.out, walk);
    });
  });
  return true;
}

}  // namespace

bool group_norm_backward_on_chip(const ChannelLayout& layout, const Tensor& dy, const Tensor& x, const Tensor& gamma,
                                 const Tensor& mean, const Tensor& rstd, const Destination& dx,
                                 const Destination& dgamma, const Destination& dbeta) {
  bool fits = false;
  dispatch_device(kOperation, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    Problem<T> problem{
        .layout = layout,
        .norm = group_norm_of<T>(layout, x, gamma),
        .out = {.dx = output<T>(dx.tensor), .add = dx.add, .partial = nullptr, .copies = dy.size() / x.size()},
        .dgamma = dgamma,
        .dbeta = dbeta,
        .x = x};
    problem.norm.dy = input<T>(dy);
    problem.norm.mean = input<double>(mean);
    problem.norm.rstd = input<double>(rstd);
    with_group_pack(problem.norm, {problem.norm.dy, problem.out.dx}, [&](auto n) {
      fits = layout.inner == 1 ? launch_rows<n()>(problem) : launch_channels<n()>(problem);
    });
  });
  return fits;
}

}  // namespace jnorm::cuda
