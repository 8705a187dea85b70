#include <jnorm/cuda/driver.hpp>
#include <jnorm/cuda/embedding_kernels.cuh>
#include <jnorm/cuda/kernels.hpp>
#include <jnorm/cuda/launch.cuh>

namespace jnorm::cuda {

namespace {

// The positions of the tokens, in the order of the tokens.
Tensor ordered_positions(const Tensor& tokens, Index table_rows) {
  constexpr const char* name = "embedding_dtable";
  Context& context = context_of(tokens);
  const Tensor ranks = Tensor::uninitialized(tokens.shape(), DType::int32, tokens.device());
  const Tensor order = Tensor::uninitialized(tokens.shape(), DType::int32, tokens.device());
  const int count = static_cast<int>(tokens.size());
  driver::fill_zero(context.stream, ranks.device_data(), static_cast<std::size_t>(ranks.bytes()));
  const LaunchConfig config = rank_config(count);
  launch(name, context, config, rank_positions, input<std::int32_t>(tokens), table_rows, count, output<int>(ranks));
  launch(name, context, {.blocks_x = config.blocks_x, .threads = config.threads}, order_positions, input<int>(ranks),
         count, output<int>(order));
  return order;
}

}  // namespace

void embedding(const Tensor& table, const Tensor& tokens, const Tensor& y) {
  if (y.size() == 0) return;
  constexpr const char* name = "embedding";
  dispatch_device(name, table.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Index length = table.row_length();
    const auto run = [&](auto kernel) {
      launch(name, context_of(y), warp_row_config(tokens.size()), kernel, input<T>(table), table.rows(),
             input<std::int32_t>(tokens), tokens.size(), length, output<T>(y));
    };
    constexpr int N = kPackSize<T>;
    const bool fit = packs_fit<N>(input<T>(table), length) && packs_fit<N>(output<T>(y), length);
    fit ? run(embedding_rows<T, N>) : run(embedding_rows<T, 1>);
  });
}

void embedding_dtable(const Tensor& dy, const Tensor& tokens, const Destination& dtable) {
  if (!dtable.wanted()) return;
  constexpr const char* name = "embedding_dtable";
  Context& context = context_of(dtable.tensor);
  const std::size_t bytes = static_cast<std::size_t>(dtable.tensor.bytes());
  if (!dtable.add) driver::fill_zero(context.stream, dtable.tensor.device_data(), bytes);
  if (dy.size() == 0 || dtable.tensor.size() == 0) return;
  dispatch_device(name, dy.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Index length = dy.row_length(), count = tokens.size(), copies = dy.size() / (count * length);
    const Index table_rows = dtable.tensor.size() / (copies * length);
    const Tensor order = ordered_positions(tokens, table_rows);
    const auto run = [&](auto size) {
      constexpr int N = size();
      const Index strips = ceil_divide(length, Index{kWarpSize} * N);
      launch(name, context, run_config(count, copies * strips, N * static_cast<Index>(sizeof(Wide<T>))), sum_runs<T, N>,
             input<T>(dy), length, input<std::int32_t>(tokens), table_rows, input<int>(order), static_cast<int>(count),
             strips, copies * strips, output<T>(dtable.tensor), dtable.add);
    };
    constexpr int N = kPackSize<T>;
    if (packs_fit<N>(input<T>(dy), length) && packs_fit<N>(output<T>(dtable.tensor), length)) {
      run(std::integral_constant<int, N>());
    } else {
      run(std::integral_constant<int, 1>());
    }
  });
}

}  // namespace jnorm::cuda
