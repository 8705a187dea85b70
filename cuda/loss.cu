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

// The rows' kernel in packs of 16 bytes where all rows allow it, or element by element; f(N, team).
template <class T, class F>
void with_row_team(Index length, bool fit, F&& f) {
  if (fit) {
    constexpr int N = kPackSize<T>;
    f(std::integral_constant<int, N>(), stream_team_config(length / N, StreamedRow<T, N>::kPacks));
  } else {
    f(std::integral_constant<int, 1>(), stream_team_config(length, StreamedRow<T, 1>::kPacks));
  }
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
    const bool fit = packs_fit<kPackSize<T>>(rows.logits, rows.classes);
    with_row_team<T>(rows.classes, fit, [&](auto size, const TeamConfig& team) {
      launch(name, context, row_team_launch(rows.rows, team), cross_entropy_rows<T, size()>, rows, sums, team.threads,
             one_a_row ? output<T>(loss) : nullptr, output<Wide<T>>(row_losses), output<Wide<T>>(lse));
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
    constexpr int N = kPackSize<T>;
    const bool fit = packs_fit<N>(rows.logits, rows.classes) && packs_fit<N>(to, rows.classes);
    with_row_team<T>(rows.classes, fit, [&](auto size, const TeamConfig& team) {
      launch(name, context_of(logits), row_team_launch(all_rows, team), cross_entropy_dx_rows<T, size()>, rows,
             input<CrossEntropyTotals>(totals), mean, input<T>(dloss), one_a_row, all_rows, input<Wide<T>>(lse),
             team.threads, to, dlogits.add);
    });
  });
}

}  // namespace jnorm::cuda
