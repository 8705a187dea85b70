#include <jnorm/cuda/kernels.hpp>
#include <jnorm/cuda/launch.cuh>
#include <jnorm/cuda/rotary_kernels.cuh>

namespace jnorm::cuda {

void rotary_table(double base, Index first_position, const Tensor& table) {
  if (table.size() == 0) return;
  const Index pairs = table.size() / 2;
  Context& context = context_of(table);
  dispatch_device("rotary_table", table.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch("rotary_table", context, elementwise_config(pairs, 1, context.limits()), rotary_table_kernel<T>, pairs, base,
           first_position, Divisor(table.row_length() / 2), output<T>(table));
  });
}

void rotary(Turn turn, const Tensor& x, const Tensor& table, const Tensor& table_rows, const Destination& y) {
  if (!y.wanted() || x.size() == 0) return;
  const Index columns = table.row_length(), half = columns / 2;
  const Tensor turns = table.to(statistics_dtype(x.dtype()));
  Context& context = context_of(x);
  dispatch_device("rotary", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using W = Wide<T>;
    const auto turn_packs = [&](auto width) {
      constexpr int N = width.value;
      const RotaryShape shape{Divisor(half / N), Divisor(x.row_length() / columns), Divisor(table_rows.size())};
      const Index count = x.size() / (2 * N);
      launch("rotary", context, elementwise_config(count, 1, context.limits()), rotary_kernel<N, T>, count, shape,
             static_cast<W>(turn == Turn::forwards ? 1 : -1), y.add, input<T>(x), input<W>(turns),
             input<std::int32_t>(table_rows), output<T>(y.tensor));
    };
    if (half % kPackSize<W> == 0) {
      turn_packs(std::integral_constant<int, kPackSize<W>>{});
    } else {
      turn_packs(std::integral_constant<int, 1>{});
    }
  });
}

}  // namespace jnorm::cuda
