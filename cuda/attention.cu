#include <algorithm>

#include <jnorm/cuda/attention_kernels.cuh>
#include <jnorm/cuda/driver.hpp>
#include <jnorm/cuda/kernels.hpp>
#include <jnorm/cuda/launch.cuh>

namespace jnorm::cuda {

namespace {

AttentionSizes sizes_of(const AttentionSettings& settings, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& mask) {
  AttentionSizes sizes{.batches = q.dim(0),
                       .heads = settings.heads,
                       .key_heads = settings.key_heads,
                       .queries = q.dim(1),
                       .keys = k.dim(1),
                       .columns = q.dim(2) / settings.heads,
                       .value_columns = v.dim(2) / settings.key_heads,
                       .causal = settings.causal,
                       .mask = input<std::int32_t>(mask),
                       .mask_batch = 0,
                       .mask_head = 0,
                       .mask_query = 0};
  if (!mask.defined()) return sizes;
  const auto step = [&](int axis, Index size) { return mask.dim(axis) == 1 ? 0 : size; };
  sizes.mask_query = step(2, mask.dim(3));
  sizes.mask_head = step(1, mask.dim(2) * mask.dim(3));
  sizes.mask_batch = step(0, mask.dim(1) * mask.dim(2) * mask.dim(3));
  return sizes;
}

// Calls f with the columns of a tile, as a compile-time constant, for heads of so many: as few as hold them, or some of
// them. Twice as wide numbers leave room for fewer.
template <class T, class F>
void with_tile_columns(const AttentionSizes& sizes, F&& f) {
  if constexpr (sizeof(T) == sizeof(double)) {
    f(std::integral_constant<int, 32>());
  } else {
    const Index columns = std::max(sizes.columns, sizes.value_columns);
    if (columns <= 32) {
      f(std::integral_constant<int, 32>());
    } else if (columns <= 64 || columns > 128) {
      f(std::integral_constant<int, 64>());
    } else {
      f(std::integral_constant<int, 128>());
    }
  }
}
Index chunks_of(const AttentionSizes& sizes, Index tile_columns) {
  return std::max<Index>(1, ceil_divide(std::max(sizes.columns, sizes.value_columns), tile_columns));
}

// How many rows pass a tile at a time: as many as registers have room for.
template <class A>
constexpr int passing_rows(int tile_columns) {
  return sizeof(A) == sizeof(float) && tile_columns <= 64 ? 64 : 32;
}

// Whether the rows of a head can be read in packs of 16 bytes.
template <class T>
bool rows_fit(const Tensor& tensor, Index head_columns) {
  return packs_fit<kPackSize<T>>(input<T>(tensor), head_columns);
}

}  // namespace

void attention(const AttentionSettings& settings, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
               const Tensor& y, const Tensor& lse) {
  if (y.size() == 0) return;
  constexpr const char* name = "attention";
  const AttentionSizes sizes = sizes_of(settings, q, k, v, mask);
  dispatch_device(name, q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Wide<T>;
    const bool packs = rows_fit<T>(q, sizes.columns) && rows_fit<T>(k, sizes.columns) &&
                       rows_fit<T>(v, sizes.value_columns) && rows_fit<T>(y, sizes.value_columns);
    with_tile_columns<T>(sizes, [&](auto columns) {
      constexpr int kColumns = columns(), kKeys = passing_rows<A>(kColumns);
      const Index chunks = chunks_of(sizes, kColumns);
      const LaunchConfig config =
          attention_config(sizes.queries, sizes.batches * sizes.heads * chunks,
                           attention_shared_bytes(kTileRows, 2 * kKeys, kColumns, kKeys, sizeof(A)));
      launch(name, context_of(q), config, attend<T, kColumns, kKeys>, sizes, static_cast<A>(settings.scale),
             input<T>(q), input<T>(k), input<T>(v), packs, ceil_divide(sizes.queries, kTileRows), chunks, output<T>(y),
             output<A>(lse));
    });
  });
}

void attention_backward(const AttentionSettings& settings, const Tensor& dy, const Tensor& q, const Tensor& k,
                        const Tensor& v, const Tensor& mask, const Tensor& y, const Tensor& lse, const Destination& dq,
                        const Destination& dk, const Destination& dv) {
  constexpr const char* name = "attention_backward";
  Context& context = context_of(q);
  if (y.size() == 0) {  // y depends on nothing
    for (const Destination* const gradient : {&dq, &dk, &dv}) {
      if (!gradient->wanted() || gradient->add) continue;
      driver::fill_zero(context.stream, gradient->tensor.device_data(),
                        static_cast<std::size_t>(gradient->tensor.bytes()));
    }
    return;
  }
  const AttentionSizes sizes = sizes_of(settings, q, k, v, mask);
  const Index copies = dy.size() / y.size(), sequences = copies * sizes.batches;
  dispatch_device(name, q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Wide<T>;
    const Index all_rows = sequences * sizes.queries * sizes.heads;
    const Tensor d = Tensor::uninitialized({all_rows}, lse.dtype(), lse.device());
    launch(name, context, warp_row_config(all_rows), attention_row_products<T>, sizes, input<T>(dy), input<T>(y),
           all_rows, output<A>(d));
    const bool packs = rows_fit<T>(q, sizes.columns) && rows_fit<T>(k, sizes.columns) &&
                       rows_fit<T>(v, sizes.value_columns) && rows_fit<T>(dy, sizes.value_columns) &&
                       rows_fit<T>(dq.tensor, sizes.columns) && rows_fit<T>(dk.tensor, sizes.columns) &&
                       rows_fit<T>(dv.tensor, sizes.value_columns);
    with_tile_columns<T>(sizes, [&](auto columns) {
      // Two tiles that pass for each one in the forward pass: 32 rows for dq, so that a third block has room.
      constexpr int kColumns = columns(), kKeys = 32, kQueries = passing_rows<A>(kColumns);
      const Index chunks = chunks_of(sizes, kColumns);
      AttentionBackward<T> in{.sizes = sizes,
                              .scale = static_cast<A>(settings.scale),
                              .dy = input<T>(dy),
                              .q = input<T>(q),
                              .k = input<T>(k),
                              .v = input<T>(v),
                              .lse = input<A>(lse),
                              .d = input<A>(d),
                              .packs = packs,
                              .tiles = ceil_divide(sizes.queries, kTileRows),
                              .chunks = chunks,
                              .copies = copies};
      const auto config = [&](Index rows, Index heads, int passing) {
        return attention_config(rows, sequences * heads * chunks,
                                attention_shared_bytes(2 * kTileRows, 2 * passing, kColumns, passing, sizeof(A)));
      };
      if (dq.wanted()) {
        launch(name, context, config(sizes.queries, sizes.heads, kKeys), attend_dq<T, kColumns, kKeys>, in,
               output<T>(dq.tensor), dq.add);
      }
      if (dk.wanted() || dv.wanted()) {
        in.tiles = ceil_divide(sizes.keys, kTileRows);
        launch(name, context, config(sizes.keys, sizes.key_heads, kQueries), attend_dk_dv<T, kColumns, kQueries>, in,
               output<T>(dk.tensor), dk.add, output<T>(dv.tensor), dv.add);
      }
    });
  });
}

}  // namespace jnorm::cuda
