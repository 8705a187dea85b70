#include <jnorm/cuda/kernels.hpp>
#include <jnorm/cuda/launch.cuh>
#include <jnorm/cuda/loss_kernels.cuh>

namespace jnorm::cuda {

namespace {

constexpr LaunchConfig kOneBlock{.threads = kMaxThreads, .shared_bytes = kReductionBytes};

template <class T>
CrossEntropyRows<T> rows_of(const CrossEntropySettings& settings, const Tensor& logits, const Tensor& targets,
                            const Tensor& weights) {
  const Index classes = logits.row_length();
  const double s = settings.label_smoothing;
  return {.logits = input<T>(logits),
          .targets = input<std::int32_t>(targets),
          .weights = input<Wide<T>>(weights),
          .rows = targets.size(),
          .classes = classes,
          .ignored = settings.ignore_index,
          .target_share = static_cast<Wide<T>>(1.0 - s),
          .share = static_cast<Wide<T>>(classes == 0 ? 0.0 : s / static_cast<double>(classes))};
}

// Undefined where nobody asks for them.
template <class T>
Tensor totals_of(const char* name, const CrossEntropySettings& settings, const CrossEntropyRows<T>& rows,
                 const Tensor& logits) {
  if (settings.reduction != Reduction::mean && settings.label_smoothing == 0.0) return {};
  Tensor totals = Tensor::uninitialized({2}, DType::float64, logits.device());
  launch(name, context_of(logits), kOneBlock, cross_entropy_totals<T>, rows, output<CrossEntropyTotals>(totals));
  return totals;
}

// Launches the kernel of a team for each of so many rows, of packs where all of them allow it: f<Team, N>(config).
template <class T, class F>
void with_streamed_rows(Index rows, Index length, bool fit, const F& f) {
  with_row_pack<T>(fit, [&](auto size) {
    constexpr int N = size();
    const RowPlan plan = streamed_row_plan(length / N, kChunkPacks<T, N>);
    if (plan.team == RowTeam::warp) {
      f.template operator()<WarpTeam<kWarpTeamThreads>, N>(row_config(rows, plan));
    } else {
      f.template operator()<BlockTeam<kStreamThreads>, N>(row_config(rows, plan));
    }
  });
}

}  // namespace

void cross_entropy(const CrossEntropySettings& settings, const Tensor& logits, const Tensor& targets,
                   const Tensor& weights, const Tensor& loss, const Tensor& lse) {
  constexpr const char* name = "cross_entropy";
  dispatch_device(name, logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    Context& context = context_of(logits);
    const CrossEntropyRows<T> rows = rows_of<T>(settings, logits, targets, weights);
    const Tensor totals = totals_of(name, settings, rows, logits);
    const auto* const sums = input<CrossEntropyTotals>(totals);
    const bool one_a_row = settings.reduction == Reduction::none;
    const Tensor row_losses = one_a_row ? Tensor() : Tensor::uninitialized(lse.shape(), lse.dtype(), lse.device());
    const bool fit = packs_fit<kRowPack<T>>(rows.logits, rows.classes);
    with_streamed_rows<T>(rows.rows, rows.classes, fit, [&]<class Team, int N>(const LaunchConfig& config) {
      launch(name, context, config, cross_entropy_rows<Team, T, N>, rows, sums, one_a_row ? output<T>(loss) : nullptr,
             output<Wide<T>>(row_losses), output<Wide<T>>(lse));
    });
    if (one_a_row) return;
    launch(name, context, kOneBlock, cross_entropy_sum<T>, input<Wide<T>>(row_losses), rows.rows,
           settings.reduction == Reduction::mean ? sums : nullptr, output<T>(loss));
  });
}

void cross_entropy_dx(const CrossEntropySettings& settings, const Tensor& dloss, const Tensor& logits,
                      const Tensor& targets, const Tensor& weights, const Tensor& lse, const Destination& dlogits) {
  if (!dlogits.wanted() || dlogits.tensor.size() == 0) return;
  constexpr const char* name = "cross_entropy_dx";
  dispatch_device(name, logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const CrossEntropyRows<T> rows = rows_of<T>(settings, logits, targets, weights);
    const Tensor totals = totals_of(name, settings, rows, logits);
    const bool one_a_row = settings.reduction == Reduction::none, mean = settings.reduction == Reduction::mean;
    const Index all_rows = dlogits.tensor.size() / rows.classes;
    T* const to = output<T>(dlogits.tensor);
    const bool fit = packs_fit<kRowPack<T>>(rows.logits, rows.classes) && packs_fit<kRowPack<T>>(to, rows.classes);
    with_streamed_rows<T>(all_rows, rows.classes, fit, [&]<class Team, int N>(const LaunchConfig& config) {
      launch(name, context_of(logits), config, cross_entropy_dx_rows<Team, T, N>, rows,
             input<CrossEntropyTotals>(totals), mean, input<T>(dloss), one_a_row, all_rows, input<Wide<T>>(lse), to,
             dlogits.add);
    });
  });
}

}  // namespace jnorm::cuda
