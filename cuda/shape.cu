#include <jnorm/cuda/kernels.hpp>
#include <jnorm/cuda/launch.cuh>
#include <jnorm/cuda/shape_kernels.cuh>
#include <jnorm/cuda/units.cuh>

namespace jnorm::cuda {

namespace {

// Moves up to 16 bytes at once: a row of 64 float32 is one of 16 units.
void copy(const char* operation, const Walk& walk, const Tensor& x, const Tensor& y) {
  const Index element = size_of(x.dtype()), unit = unit_of(walk, 16 / element);
  dispatch_unit(unit * element, [&](auto tag) {
    using Unit = typename decltype(tag)::type;
    const DeviceWalk units(in_units(walk, unit));
    Context& context = context_of(y);
    launch(operation, context, elementwise_config(units.count, kCopiesInFlight, context.limits()), copy_kernel<Unit>,
           units, input<Unit>(x), output<Unit>(y));
  });
}

// Where x is contiguous along another axis than y: that axis, or -1 if tiles of the two would be mostly empty.
int axis_to_transpose(const Walk& walk) {
  constexpr Index worth_a_tile = 8;
  for (int axis = 1; axis < walk.rank; ++axis) {
    if (walk[axis].from == 1) return std::min(walk[0].size, walk[axis].size) >= worth_a_tile ? axis : -1;
  }
  return -1;
}

void transpose(const Walk& walk, int axis, const Tensor& x, const Tensor& y) {
  const WalkAxis& along_x = walk[axis];
  const WalkAxis& along_y = walk[0];
  const Walk others = without_axis(without_axis(walk, axis), 0);
  const LaunchConfig config = transpose_config(along_x.size, along_y.size, others.count, size_of(x.dtype()));
  const Transpose transposed{.x_axis = along_x.size,
                             .y_axis = along_y.size,
                             .y_step_of_x_axis = along_x.to,
                             .x_step_of_y_axis = along_y.from,
                             .tiles_x = Divisor(ceil_divide(along_x.size, kTile)),
                             .tiles_y = Divisor(ceil_divide(along_y.size, kTile)),
                             .others = DeviceWalk(others)};
  dispatch_unit(size_of(x.dtype()), [&](auto tag) {
    using Unit = typename decltype(tag)::type;
    launch("permute", context_of(y), config, transpose_kernel<Unit>, transposed, input<Unit>(x), output<Unit>(y));
  });
}

}  // namespace

void broadcast(const Tensor& x, const Tensor& y) {
  const Strides own = row_major(x.shape());
  Strides steps;  // 0 where x repeats
  const int missing = y.rank() - x.rank();
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (x.dim(axis) != 1) {
      steps.steps[static_cast<std::size_t>(axis + missing)] = own.steps[static_cast<std::size_t>(axis)];
    }
  }
  copy("broadcast", make_walk(y.shape(), steps, row_major(y.shape())), x, y);
}

void permute(const Tensor& x, const int* axes, const Tensor& y) {
  const Strides own = row_major(x.shape());
  Strides steps;
  for (int axis = 0; axis < y.rank(); ++axis) {
    steps.steps[static_cast<std::size_t>(axis)] = own.steps[static_cast<std::size_t>(axes[axis])];
  }
  const Walk walk = make_walk(y.shape(), steps, row_major(y.shape()));
  const int axis = axis_to_transpose(walk);
  if (axis < 0) return copy("permute", walk, x, y);
  transpose(walk, axis, x, y);
}

void copy_strided(const Shape& sizes, const Tensor& x, const Strides& from, const Tensor& y, const Strides& to) {
  copy("copy_strided", make_walk(sizes, from, to), x, y);
}

void copy_block(const Tensor& x, const BlockCopy& block, const Tensor& y) {
  const Walk walk =
      make_walk({block.count, block.length}, {block.from, {block.from_stride, 1}}, {block.to, {block.to_stride, 1}});
  if (!block.add) return copy("copy_block", walk, x, y);
  dispatch_device_any("copy_block", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    Context& context = context_of(y);
    launch("copy_block", context, elementwise_config(walk.count, 1, context.limits()), add_kernel<T>, DeviceWalk(walk),
           input<T>(x), output<T>(y));
  });
}

}  // namespace jnorm::cuda
