// BatchNorm and GroupNorm, forward and backward, as autograd calls them.

#include <jnorm/cuda/bytes_moved.hpp>

#include "cuda/benchmarks/case_tensors.hpp"

namespace jnorm::test {

namespace {

constexpr double kEps = 1e-5;

struct ChannelNorm {
  Tensor dy, x, gamma, beta, y, mean, variance, rstd, dx, dgamma, dbeta;
};

void run_forward(const Kernels& kernels, const ChannelLayout& layout, const ChannelNorm& t) {
  kernels.channel_norm(layout, t.x, t.gamma, t.beta, {}, kEps, t.y, t.mean, t.variance, t.rstd);
}

void run_backward(const Kernels& kernels, const ChannelLayout& layout, const ChannelNorm& t) {
  kernels.channel_norm_backward(layout, t.dy, t.x, t.gamma, {}, t.mean, t.rstd, {t.dx}, {t.dgamma}, {t.dbeta});
}

ChannelNorm make_tensors(const Maker& make, const ChannelLayout& layout) {
  const Shape shape{layout.outer, layout.channels, layout.inner};
  const auto statistic = [&] { return make.empty({layout.statistics()}, DType::float64); };
  return {.dy = {},
          .x = make.random(shape, 1),
          .gamma = make.random({layout.channels}, 2),
          .beta = make.random({layout.channels}, 3),
          .y = make.empty(shape),
          .mean = statistic(),
          .variance = statistic(),
          .rstd = statistic(),
          .dx = {},
          .dgamma = {},
          .dbeta = {}};
}

// A part of the problem that has statistics of its own, on the CPU: some channels of BatchNorm, some outer indices of
// GroupNorm.
struct Part {
  ChannelLayout layout;
  ChannelNorm t;
};
Part part_of(const ChannelLayout& layout, const ChannelNorm& t) {
  const int axis = layout.groups > 0 ? 0 : 1;
  Part part{layout, {}};
  (axis == 0 ? part.layout.outer : part.layout.channels) = 4;
  const auto of_channels = [&](const Tensor& x) { return axis == 0 ? wide_on_cpu(x) : sample(x, 0); };
  part.t.x = sample(t.x, axis);
  part.t.gamma = of_channels(t.gamma);
  part.t.beta = of_channels(t.beta);
  for (Tensor* statistic : {&part.t.mean, &part.t.variance, &part.t.rstd}) {
    *statistic = Tensor::uninitialized({part.layout.statistics()}, DType::float64);
  }
  part.t.y = wide_like(part.t.x);
  run_forward(cpu(), part.layout, part.t);
  if (!t.dy.defined()) return part;
  part.t.dy = sample(t.dy, axis);
  part.t.dx = wide_like(part.t.x);
  part.t.dgamma = wide_like(part.t.gamma);
  part.t.dbeta = wide_like(part.t.gamma);
  run_backward(cpu(), part.layout, part.t);
  return part;
}

double forward_error(const ChannelLayout& layout, const ChannelNorm& t) {
  return error_of(sample(t.y, layout.groups > 0 ? 0 : 1), part_of(layout, t).t.y, t.x.dtype());
}

// GroupNorm's gamma and beta get sums over all outer indices: those are left to the tests.
double backward_error(const ChannelLayout& layout, const ChannelNorm& t) {
  const ChannelNorm right = part_of(layout, t).t;
  const double error = error_of(sample(t.dx, layout.groups > 0 ? 0 : 1), right.dx, t.x.dtype(), 4.0);
  if (layout.groups > 0) return error;
  const double scale = std::sqrt(static_cast<double>(layout.outer * layout.inner));
  return std::max({error, error_of(sample(t.dgamma, 0), right.dgamma, t.x.dtype(), scale),
                   error_of(sample(t.dbeta, 0), right.dbeta, t.x.dtype(), scale)});
}

enum class Way : std::uint8_t { forward, backward };

// `layout` with as many outer indices as fill a tensor.
Case channel_norm_case(const Maker& make, ChannelLayout layout, Way way) {
  layout.outer = make.rows(layout.channels * layout.inner);
  const Index sets = make.sets(way == Way::forward ? 2 : 4);
  const auto tensors = repeat(sets, [&] {
    ChannelNorm t = make_tensors(make, layout);
    if (way == Way::forward) return t;
    run_forward(make.kernels(), layout, t);
    t.dy = make.random(t.x.shape(), 4);
    t.dx = make.empty(t.x.shape());
    t.dgamma = make.empty({layout.channels});
    t.dbeta = make.empty({layout.channels});
    return t;
  });
  const bool grouped = layout.groups > 0;
  const Index count = layout.outer * layout.channels * layout.inner;
  const cuda::Groups groups = grouped ? cuda::Groups::on_chip : cuda::Groups::none;
  return {
      .shape = fmt::format("{}x{}x{}", layout.outer, layout.channels, layout.inner),
      .dtype = make.dtype(),
      .bytes = way == Way::forward ? cuda::channel_norm_bytes(groups, count, make.element())
                                   : cuda::channel_norm_backward_bytes(groups, count, make.element()),
      .bar = grouped ? 0.85 : 0.82,
      .sets = sets,
      .launch =
          [=, &kernels = make.kernels()](Index set) {
            const ChannelNorm& t = tensors[static_cast<std::size_t>(set)];
            way == Way::forward ? run_forward(kernels, layout, t) : run_backward(kernels, layout, t);
          },
      .error =
          [=] { return way == Way::forward ? forward_error(layout, tensors[0]) : backward_error(layout, tensors[0]); }};
}

}  // namespace

// As in image models: BatchNorm of 64 channels of 56 by 56, GroupNorm of 8 channels of 28 by 28 a group; and GroupNorm
// of rows, 16 channels a group.
std::vector<CaseMaker> channel_norm_cases(Device device, Index mebibytes) {
  std::vector<CaseMaker> cases;
  const auto add = [&](const char* kernel, const ChannelLayout& layout, Way way) {
    add_cases(cases, kernel, device, mebibytes, {0},
              [=](const Maker& make, Index /*number*/) { return channel_norm_case(make, layout, way); });
  };
  const ChannelLayout batch{1, 64, 3136}, group{1, 256, 784, 32}, rows{1, 512, 1, 32};
  add("batch_norm", batch, Way::forward);
  add("batch_norm_backward", batch, Way::backward);
  for (const ChannelLayout& layout : {group, rows}) {
    add("group_norm", layout, Way::forward);
    add("group_norm_backward", layout, Way::backward);
  }
  return cases;
}

}  // namespace jnorm::test
