#include <jnorm/cuda/kernels.hpp>
#include <jnorm/cuda/launch.cuh>
#include <jnorm/cuda/softmax_kernels.cuh>

namespace jnorm::cuda {

namespace {

// Calls f with N, the elements of a pack, as a compile-time constant: 16 bytes where all rows allow it, or 1.
template <class T, class F>
void with_pack_size(bool packs_fit, F&& f) {
  if (packs_fit) {
    f(std::integral_constant<int, kPackSize<T>>());
  } else {
    f(std::integral_constant<int, 1>());
  }
}

// How many packs a thread may hold of a row: what 64 registers leave room for. Gradients leave less of it.
using Choices = std::array<int, 3>;
template <class T, int N>
constexpr Choices kHeld = sizeof(T) == 8 ? Choices{1, 2, 3}
                          : N == 8       ? Choices{1, 2, 4}
                                         : Choices{1, 4, 8};
template <class T, int N>
constexpr Choices kHeldOfGradients = N == 4 ? Choices{1, 2, 4} : kHeld<T, N>;

// Calls f with the one of three numbers that `chosen` is, as a compile-time constant, or with 0.
template <Choices kChoices, class F>
void with_constant(int chosen, F&& f) {
  switch (chosen) {
    case kChoices[0]: return f(std::integral_constant<int, kChoices[0]>());
    case kChoices[1]: return f(std::integral_constant<int, kChoices[1]>());
    case kChoices[2]: return f(std::integral_constant<int, kChoices[2]>());
    default: return f(std::integral_constant<int, 0>());
  }
}

template <SoftmaxKind kKind>
void softmax_rows(const char* name, const Tensor& x, const Tensor& y) {
  if (x.size() == 0) return;
  dispatch_device(name, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const from = input<T>(x);
    T* const to = output<T>(y);
    const Index rows = x.rows(), length = x.row_length();
    with_pack_size<T>(packs_fit<kPackSize<T>>(from, length) && packs_fit<kPackSize<T>>(to, length), [&](auto size) {
      constexpr int N = size();
      const TeamConfig team = team_config(length / N, kHeld<T, N>);
      const LaunchConfig config = row_team_launch(rows, team);
      with_constant<kHeld<T, N>>(team.packs, [&](auto held) {
        if constexpr (held() == 0) {
          launch(name, context_of(x), config, softmax_streamed<kKind, T, N>, from, rows, length, team.threads, to);
        } else {
          launch(name, context_of(x), config, softmax_held<kKind, T, N, held()>, from, rows, length, team.threads, to);
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
    const bool fit = packs_fit<kPackSize<T>>(dys, length) && packs_fit<kPackSize<T>>(ys, length) &&
                     packs_fit<kPackSize<T>>(to, length);
    with_pack_size<T>(fit, [&](auto size) {
      constexpr int N = size();
      const TeamConfig team = team_config(length / N, kHeldOfGradients<T, N>);
      const bool keeps = kKind == SoftmaxKind::plain && team.packs > 0;
      const Index kept_bytes = keeps ? length * static_cast<Index>(sizeof(T)) : 0;
      const LaunchConfig config = row_team_launch(all_rows, team, kept_bytes);
      with_constant<kHeldOfGradients<T, N>>(team.packs, [&](auto held) {
        if constexpr (held() == 0) {
          launch(name, context_of(y), config, softmax_dx_streamed<kKind, T, N>, dys, all_rows, ys, rows, length,
                 team.threads, to, dx.add);
        } else {
          launch(name, context_of(y), config, softmax_dx_held<kKind, T, N, held()>, dys, all_rows, ys, rows, length,
                 team.threads, to, dx.add);
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
