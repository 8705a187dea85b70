#pragma once

// The second step of sums over rows: what the parts of the rows have summed in each column is added in order.

#include <jnorm/cuda/driver.hpp>
#include <jnorm/cuda/launch.cuh>
#include <jnorm/cuda/norm_config.hpp>
#include <jnorm/cuda/row.cuh>

namespace jnorm::cuda {

// One or two sums a column, and the gradients that they become.
template <class T, class A>
struct ColumnGradients {
  const A* partial;  // [K, parts, sums, H]
  Index parts, length, sums;
  T *first, *second;  // [K, H] or null: of the first and the second sum
  bool add_to_first, add_to_second;
};

// A block adds 32 columns of one gradient: each of its warps some of the parts.
template <class T, class A>
JNORM_KERNEL(kMaxThreads)
add_column_parts(ColumnGradients<T, A> columns, Index tiles) {
  const Index tile = block_x() % tiles, sum = block_x() / tiles % columns.sums, copy = block_x() / tiles / columns.sums;
  T* const result = sum == 0 ? columns.first : columns.second;
  if (result == nullptr) return;
  const Index column = tile * kWarpSize + lane_index();
  const int warps = block_size() / kWarpSize;
  const bool inside = column < columns.length;
  A total = A(0);
  for (Index part = warp_index(); inside && part < columns.parts; part += warps) {
    const Index row = (copy * columns.parts + part) * columns.sums + sum;
    total += load_read_only(columns.partial + row * columns.length + column);
  }
  A* const totals = dynamic_smem<A>();  // [warps, 32]
  totals[thread_index()] = total;
  block_barrier();
  if (warp_index() != 0 || !inside) return;
  for (int warp = 1; warp < warps; ++warp) total += totals[warp * kWarpSize + lane_index()];
  put(result[copy * columns.length + column], static_cast<Wide<T>>(total),
      sum == 0 ? columns.add_to_first : columns.add_to_second);
}

template <class T, class A>
void launch_column_parts(const char* operation, Context& context, const ColumnGradients<T, A>& columns, Index copies) {
  const Index tiles = ceil_divide(columns.length, kWarpSize);
  launch(operation, context, column_parts_config(tiles, columns.sums, copies, columns.parts, sizeof(A)),
         add_column_parts<T, A>, columns, tiles);
}

// The sum of `count` terms for each copy, a block each.
template <class T, class A>
JNORM_KERNEL(kMaxThreads)
add_terms(const A* terms, Index count, T* sums, bool add) {
  Sum<double> sum;
  for (Index i = thread_index(); i < count; i += block_size()) sum.value += terms[block_x() * count + i];
  sum = BlockTeam<kMaxThreads>::reduce(sum);
  if (thread_index() == 0) put(sums[block_x()], static_cast<Wide<T>>(sum.value), add);
}

template <class T, class A>
void launch_add_terms(const char* operation, Context& context, const A* terms, Index count, Index copies, T* sums,
                      bool add) {
  const LaunchConfig config{.blocks_x = copies, .threads = kMaxThreads, .shared_bytes = kReductionBytes};
  launch(operation, context, config, add_terms<T, A>, terms, count, sums, add);
}

// A sum over nothing.
inline void leave_zero(const Destination& result) {
  if (!result.wanted() || result.add) return;
  driver::fill_zero(context_of(result.tensor).stream, result.tensor.device_data(),
                    static_cast<std::size_t>(result.tensor.bytes()));
}

}  // namespace jnorm::cuda
