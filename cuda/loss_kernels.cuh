#pragma once

// Cross-entropy of rows of logits, through logsumexp. With label smoothing s, class weights w (all 1 if there are none)
// and their sum W:
//
//   [CE.1]  loss_r = (1 - s) w[target] (lse - x[target]) + (s / V) sum_c w[c] (lse - x[c])
//           lse = max + log sum exp(x - max)
//   [CE.2]  dx = dloss_r (((1 - s) w[target] + s W / V) p - (1 - s) w[target] onehot(target) - (s / V) w)
//
// where p = exp(x - lse), divided by its sum where the rounding of a large lse would show. A mean is the sum of loss_r
// divided by the sum of w[target].
//
// Rows whose target is ignored count nowhere and have zero gradients. A target that is out of range, which callers have
// ruled out, reads nothing: it makes the loss NaN.

#include <jnorm/cuda/softmax_kernels.cuh>

namespace jnorm::cuda {

// What the rows of one call share. Weights are null where all are 1.
template <class T>
struct CrossEntropyRows {
  const T* logits;
  const std::int32_t* targets;
  const Wide<T>* weights;
  Index rows, classes;
  std::int32_t ignored;
  Wide<T> target_share, share;  // of the losses: 1 - s to the target, s / V to every class

  JNORM_DEVICE Wide<T> class_weight(Index c) const { return weights == nullptr ? Wide<T>(1) : weights[c]; }
  JNORM_DEVICE Wide<T> target_weight(std::int32_t target) const {
    return target >= 0 && target < classes ? class_weight(target) : Wide<T>(NAN);
  }
};

// Sums that all rows share.
struct CrossEntropyTotals {
  double counted = 1;  // of w[target] over the rows that count
  double weights = 0;  // of w
};

// One block.
template <class T>
JNORM_KERNEL(kMaxThreads)
cross_entropy_totals(CrossEntropyRows<T> in, CrossEntropyTotals* totals) {
  SumPair<double> sums;
  for (Index r = thread_index(); r < in.rows; r += block_size()) {
    const std::int32_t target = in.targets[r];
    if (target != in.ignored) sums.first += in.target_weight(target);
  }
  for (Index c = thread_index(); c < in.classes; c += block_size()) sums.second += in.class_weight(c);
  sums = block_reduce(sums, dynamic_smem<SumPair<double>>());
  if (thread_index() == 0) *totals = {sums.first, sums.second};
}

// The sum of f(c) over the classes.
template <class Team, class A, class F>
JNORM_DEVICE A sum_over_classes(Index classes, const F& f) {
  Sum<A> sum;
  for (Index c = Team::index(); c < classes; c += Team::size()) sum.value += f(c);
  return Team::reduce(sum).value;
}

// A row's loss goes to `losses`, in the logits' type, or to `wide_losses`, for a sum; the other one is null. Without
// totals, the reduction isn't a mean and W is V.
template <class Team, class T, int N>
JNORM_KERNEL(Team::kMaxThreads)
cross_entropy_rows(CrossEntropyRows<T> in, const CrossEntropyTotals* totals, T* losses, Wide<T>* wide_losses,
                   Wide<T>* lse) {
  using A = Wide<T>;
  const Index row = Team::row();
  if (row >= in.rows) return;
  const T* const x = in.logits + row * in.classes;
  const OnlineSoftmax<A> state = streamed_softmax<Team, N>(x, in.classes / N);
  const std::int32_t target = in.targets[row];
  const bool counts = target != in.ignored;
  A gaps = A(0);
  if (counts && in.share > A(0)) {
    gaps = sum_over_classes<Team, A>(in.classes,
                                     [&](Index c) { return in.class_weight(c) * (state.largest - widen(x[c])); });
  }
  if (Team::index() != 0) return;
  const A log_sum = log(state.sum);
  lse[row] = state.largest + log_sum;
  A loss = A(0);
  if (counts) {
    const A weight = in.target_weight(target);  // NaN out of range
    const A at_target = weight == weight ? widen(x[target]) : weight;
    loss = in.target_share * weight * ((state.largest - at_target) + log_sum);
    if (in.share > A(0)) loss += in.share * (gaps + static_cast<A>(totals->weights) * log_sum);  // [CE.1]
  }
  if (losses != nullptr) {
    losses[row] = narrow<T>(loss);
  } else {
    wide_losses[row] = loss;
  }
}

// One block: the sum of the rows' losses, divided by totals->counted if there are totals.
template <class T>
JNORM_KERNEL(kMaxThreads)
cross_entropy_sum(const Wide<T>* losses, Index rows, const CrossEntropyTotals* totals, T* loss) {
  Sum<double> sum;
  for (Index r = thread_index(); r < rows; r += block_size()) sum.value += losses[r];
  sum = block_reduce(sum, dynamic_smem<Sum<double>>());
  if (thread_index() != 0) return;
  const double counted = totals == nullptr ? 1.0 : totals->counted;
  *loss = narrow<T>(counted == 0.0 ? Wide<T>(0) : static_cast<Wide<T>>(sum.value / counted));
}

// Where a float32 lse is larger than this, its rounding shows in exp(x - lse).
constexpr float kExactLse = 32;

// What the elements of one row of gradients are made of.
template <class T>
struct CrossEntropyGradient {
  const CrossEntropyRows<T>& in;
  Wide<T> lse, scale, at_target, share;
  std::int32_t target;
  JNORM_DEVICE Wide<T> operator()(Index c, T x) const {
    Wide<T> dx = exp_for<T>(widen(x) - lse) * scale;
    if (share != Wide<T>(0)) dx -= share * in.class_weight(c);
    return c == target ? dx - at_target : dx;  // [CE.2]
  }
};

// dloss has an element for each copy of the loss or, with one_a_row, of the rows' losses.
template <class Team, class T, int N>
JNORM_KERNEL(Team::kMaxThreads)
cross_entropy_dx_rows(CrossEntropyRows<T> in, const CrossEntropyTotals* totals, bool mean, const T* dloss,
                      bool one_a_row, Index all_rows, const Wide<T>* lse, T* dlogits, bool add) {
  using A = Wide<T>;
  const Index i = Team::row();
  if (i >= all_rows) return;
  const Index row = i % in.rows;
  const T* const x = in.logits + row * in.classes;
  const std::int32_t target = in.targets[row];
  const double counted = mean ? totals->counted : 1.0;
  T* const dx = dlogits + i * in.classes;
  if (target == in.ignored || counted == 0.0) {
    if (add) return;
    for (Index c = Team::index(); c < in.classes; c += Team::size()) dx[c] = T(0.0F);
    return;
  }
  const A weight = in.target_share * in.target_weight(target);
  const A dloss_row = static_cast<A>(widen(dloss[one_a_row ? i : i / in.rows]) / counted);
  CrossEntropyGradient<T> gradient{in, lse[row], A(0), dloss_row * weight, dloss_row * in.share, target};
  const A all_weights = in.share > A(0) ? static_cast<A>(totals->weights) : A(0);
  gradient.scale = dloss_row * (weight + in.share * all_weights);
  if constexpr (sizeof(A) == sizeof(float)) {
    if (fabs(gradient.lse) > kExactLse) {
      gradient.scale /=
          sum_over_classes<Team, A>(in.classes, [&](Index c) { return exp_for<T>(widen(x[c]) - gradient.lse); });
    }
  }
  for_each_chunk<Team, N>(x, in.classes / N, Direction::backwards, [&](const Chunk<Team, T, N>& chunk, Index first) {
    chunk.for_each_pack([&](int v, Index column) {
      Pack<A, N> values;
      JNORM_UNROLL
      for (int j = 0; j < N; ++j) values[j] = gradient(first + column + j, chunk[v][j]);
      put_pack(dx + first + column, values, add);
    });
  });
}

}  // namespace jnorm::cuda
