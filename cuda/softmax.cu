#include <jnorm/cuda/kernels.hpp>
#include <jnorm/cuda/launch.cuh>
#include <jnorm/cuda/softmax_kernels.cuh>

namespace jnorm::cuda {

namespace {

// A block of 1024 threads leaves each 64 registers, which hold so many packs of one row, or of two. Narrow elements,
// widened, need more.
constexpr RowChoices softmax_choices(int pack, int element_bytes) {
  if (pack > 1 && element_bytes == 2) return {.warp = {1, 2, 4}, .block = {2, 4}};
  return {.warp = {1, 4, 8}, .block = {4, 8}};
}
constexpr RowChoices softmax_dx_choices(int pack, int element_bytes) {
  if (element_bytes == 8) return {.warp = {1, 4}, .block = {4}};
  if (pack == 1) return {.warp = {1, 4, 8}, .block = {4, 8}};
  if (element_bytes == 2) return {.warp = {1, 2, 4}, .block = {4, 8}, .block_threads = kMaxThreads / 2};
  return {.warp = {1, 2, 4}, .block = {2, 4}};
}

template <SoftmaxKind kKind>
void softmax_rows(const char* name, const Tensor& x, const Tensor& y) {
  if (x.size() == 0) return;
  dispatch_device(name, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const from = input<T>(x);
    T* const to = output<T>(y);
    const Index rows = x.rows(), length = x.row_length();
    constexpr int pack = kRowPack<T>;
    with_row_pack<T>(packs_fit<pack>(from, length) && packs_fit<pack>(to, length), [&](auto size) {
      constexpr int N = size();
      constexpr RowChoices choices = softmax_choices(N, sizeof(T));
      const RowPlan plan = row_plan(length / N, choices);
      with_row_team<choices>(plan, [&]<class Team, int V>() {
        const auto with = [&](auto* kernel) {
          launch(name, context_of(x), row_config(rows, plan), kernel, from, rows, length, to);
        };
        if constexpr (V == 0) {
          with(softmax_streamed<kKind, Team, T, N>);
        } else {
          with(softmax_held<kKind, Team, T, N, V>);
        }
      });
    });
  });
}

template <SoftmaxKind kKind>
void softmax_rows_dx(const char* name, const Tensor& dy, const Tensor& y, const Destination& dx) {
  if (!dx.wanted() || dy.size() == 0) return;
  dispatch_device(name, y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *const dys = input<T>(dy), *const ys = input<T>(y);
    T* const to = output<T>(dx.tensor);
    const Index rows = y.rows(), length = y.row_length(), all_rows = dy.size() / length;
    constexpr int pack = kRowPack<T>;
    const bool fit = packs_fit<pack>(dys, length) && packs_fit<pack>(ys, length) && packs_fit<pack>(to, length);
    with_row_pack<T>(fit, [&](auto size) {
      constexpr int N = size();
      constexpr RowChoices choices = softmax_dx_choices(N, sizeof(T));
      const RowPlan plan = row_plan(length / N, choices);
      with_row_team<choices>(plan, [&]<class Team, int V>() {
        const auto with = [&](auto* kernel) {
          launch(name, context_of(y), row_config(all_rows, plan), kernel, dys, all_rows, ys, rows, length, to, dx.add);
        };
        if constexpr (V == 0) {
          with(softmax_dx_streamed<kKind, Team, T, N>);
        } else {
          with(softmax_dx_held<kKind, Team, T, N, V>);
        }
      });
    });
  });
}

}  // namespace

void softmax(const Tensor& x, const Tensor& y) { softmax_rows<SoftmaxKind::plain>("softmax", x, y); }
void softmax_dx(const Tensor& dy, const Tensor& y, const Destination& dx) {
  softmax_rows_dx<SoftmaxKind::plain>("softmax_dx", dy, y, dx);
}
void log_softmax(const Tensor& x, const Tensor& y) { softmax_rows<SoftmaxKind::logarithm>("log_softmax", x, y); }
void log_softmax_dx(const Tensor& dy, const Tensor& y, const Destination& dx) {
  softmax_rows_dx<SoftmaxKind::logarithm>("log_softmax_dx", dy, y, dx);
}

}  // namespace jnorm::cuda
