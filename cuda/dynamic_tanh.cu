// Dynamic tanh: see dynamic_tanh_kernels.cuh.

#include <jnorm/cuda/column_parts.cuh>
#include <jnorm/cuda/dynamic_tanh_kernels.cuh>
#include <jnorm/cuda/kernels.hpp>

namespace jnorm::cuda {

namespace {

template <class T>
RepeatingOr<T> repeating_or(const Tensor& parameter, float absent) {
  return {repeating<T>(parameter), static_cast<T>(absent)};
}

template <class T, int N>
void launch_sums(const char* operation, Context& context, DynamicTanhSums<T> sums, Index copies,
                 const Destination& dalpha, const Destination& dgamma) {
  const Device device = (dalpha.wanted() ? dalpha : dgamma).tensor.device();
  sums.tiles = ceil_divide(sums.length / N, kColumnThreads);
  sums.parts = column_part_count(sums.rows, sums.tiles * copies);
  Tensor dgamma_parts, dalpha_parts;
  if (dgamma.wanted()) {
    const DType wide = statistics_dtype(dgamma.tensor.dtype());
    dgamma_parts = Tensor::uninitialized(Shape{copies * sums.parts * sums.length}, wide, device);
  }
  if (dalpha.wanted()) {
    dalpha_parts = Tensor::uninitialized(Shape{copies * sums.parts * sums.tiles}, DType::float64, device);
  }
  sums.dgamma = output<Wide<T>>(dgamma_parts);
  sums.dalpha = output<double>(dalpha_parts);
  const LaunchConfig config{
      .blocks_x = copies * sums.parts * sums.tiles, .threads = kColumnThreads, .shared_bytes = kReductionBytes};
  launch(operation, context, config, dynamic_tanh_sums<T, N>, sums);
  if (dgamma.wanted()) {
    launch_column_parts(operation, context,
                        ColumnGradients<T, Wide<T>>{.partial = sums.dgamma,
                                                    .parts = sums.parts,
                                                    .length = sums.length,
                                                    .sums = 1,
                                                    .first = output<T>(dgamma.tensor),
                                                    .second = nullptr,
                                                    .add_to_first = dgamma.add,
                                                    .add_to_second = false},
                        copies);
  }
  if (dalpha.wanted()) {
    launch_add_terms(operation, context, input<double>(dalpha_parts), sums.parts * sums.tiles, copies,
                     output<T>(dalpha.tensor), dalpha.add);
  }
}

}  // namespace

void dynamic_tanh(const Tensor& x, const Tensor& alpha, const Tensor& gamma, const Tensor& beta, const Tensor& y) {
  if (x.size() == 0) return;
  dispatch_device("dynamic_tanh", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    map("dynamic_tanh", y, OnWide<DynamicTanh<T>>{{input<T>(alpha)}}, output<T>(y), Whole<T>{input<T>(x)},
        repeating_or<T>(gamma, 1.0F), repeating_or<T>(beta, 0.0F));
  });
}

void dynamic_tanh_dx(const Tensor& dy, const Tensor& x, const Tensor& alpha, const Tensor& gamma,
                     const Destination& dx) {
  if (!dx.wanted() || dy.size() == 0) return;
  dispatch_device("dynamic_tanh_dx", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* const to = output<T>(dx.tensor);
    map("dynamic_tanh_dx", dx.tensor, OnWide<DynamicTanhDx<T>>{{input<T>(alpha)}}, to, Whole<T>{input<T>(dy)},
        repeating<T>(x), repeating_or<T>(gamma, 1.0F), WholeOrZero<T>{dx.add ? to : nullptr});
  });
}

void dynamic_tanh_dparameters(const Tensor& dy, const Tensor& x, const Tensor& alpha, const Tensor& gamma,
                              const Destination& dalpha, const Destination& dgamma) {
  if (!dalpha.wanted() && !dgamma.wanted()) return;
  if (x.size() == 0 || dy.size() == 0) {
    leave_zero(dalpha);
    leave_zero(dgamma);
    return;
  }
  dispatch_device("dynamic_tanh_dparameters", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const DynamicTanhSums<T> sums{.dy = input<T>(dy),
                                  .x = input<T>(x),
                                  .alpha = input<T>(alpha),
                                  .gamma = input<T>(gamma),
                                  .dgamma = nullptr,
                                  .dalpha = nullptr,
                                  .rows = x.rows(),
                                  .length = x.row_length(),
                                  .parts = 1,
                                  .tiles = 1};
    const Index copies = dy.size() / x.size();
    constexpr int pack = kRowPack<T>;
    const bool fits = packs_fit<pack>(sums.x, sums.length) && packs_fit<pack>(sums.dy, sums.length) &&
                      packs_fit<pack>(sums.gamma, sums.length);
    with_row_pack<T>(fits, [&](auto n) {
      launch_sums<T, n()>("dynamic_tanh_dparameters", context_of(x), sums, copies, dalpha, dgamma);
    });
  });
}

}  // namespace jnorm::cuda
