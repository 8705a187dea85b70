#include <jnorm/core/layout.hpp>
#include <jnorm/cuda/indexing_kernels.cuh>
#include <jnorm/cuda/kernels.hpp>
#include <jnorm/cuda/launch.cuh>
#include <jnorm/cuda/units.cuh>

namespace jnorm::cuda {

namespace {

LaunchConfig config_for(Index count, const Tensor& y) { return elementwise_config(count, 1, context_of(y).limits()); }

// A copy of the tensor that the index points into, which may have a leading axis more.
Shape one_copy(const Tensor& whole, const Tensor& index) {
  return whole.rank() > index.rank() ? whole.shape().without_leading() : whole.shape();
}

Strides without_step(Strides strides, int axis) {
  strides.steps[static_cast<std::size_t>(axis)] = 0;
  return strides;
}
Index step_of(const Strides& strides, int axis) { return strides.steps[static_cast<std::size_t>(axis)]; }

}  // namespace

void index_select(const Tensor& x, int axis, const Tensor& index, const Tensor& y) {
  if (y.size() == 0) return;
  const AlongAxis from(x.shape(), axis);
  const Index unit = common_unit(from.inner, size_of(x.dtype()));
  dispatch_unit(unit * size_of(x.dtype()), [&](auto tag) {
    using Unit = typename decltype(tag)::type;
    const Index size = y.size() / unit;
    launch("index_select", context_of(y), config_for(size, y), index_select_kernel<Unit>, size, Divisor(index.size()),
           from.length, Divisor(from.inner / unit), input<Unit>(x), input<std::int32_t>(index), output<Unit>(y));
  });
}

void index_add(const Tensor& x, int axis, const Tensor& index, const Tensor& y) {
  if (y.size() == 0) return;
  const AlongAxis to(y.shape(), axis);
  const Index count = index.size();
  const Tensor links = Tensor::uninitialized({to.length + count}, DType::int32, y.device());
  auto* const first = output<std::int32_t>(links);
  fill(links, -1);
  launch("index_add", context_of(y), config_for(count, y), chain_kernel, count, to.length, input<std::int32_t>(index),
         first, first + to.length);
  dispatch_device("index_add", y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch("index_add", context_of(y), config_for(y.size(), y), index_add_kernel<T>, y.size(), count,
           Divisor(to.length), Divisor(to.inner), input<T>(x), first, first + to.length, output<T>(y));
  });
}

void gather(const Tensor& x, int axis, const Tensor& index, const Tensor& y) {
  if (y.size() == 0) return;
  const Shape whole = one_copy(x, index);
  const Strides steps = row_major(whole);
  const AlongIndex along{
      .walk = DeviceWalk(make_walk(index.shape(), without_step(steps, axis), row_major(index.shape()))),
      .copy = Divisor(index.size()),
      .from_copy = whole.size(),
      .to_copy = index.size()};
  dispatch_size(y.dtype(), [&](auto tag) {
    using Raw = typename decltype(tag)::type;
    launch("gather", context_of(y), config_for(y.size(), y), gather_kernel<Raw>, along, y.size(), whole[axis],
           step_of(steps, axis), input<Raw>(x), input<std::int32_t>(index), output<Raw>(y));
  });
}

void scatter_add(const Tensor& x, int axis, const Tensor& index, const Tensor& y) {
  if (y.size() == 0) return;
  const Shape whole = one_copy(y, index);
  const Strides steps = row_major(index.shape());
  const Shape reached = index.shape().with_axis(axis, whole[axis]);  // beside the axis, the index may be the smaller
  if (!(reached == whole)) fill(y, 0);
  if (reached.size() == 0) return;
  const AlongIndex along{.walk = DeviceWalk(make_walk(reached, without_step(steps, axis), row_major(whole))),
                         .copy = Divisor(reached.size()),
                         .from_copy = index.size(),
                         .to_copy = whole.size()};
  const Index size = y.size() / whole.size() * reached.size();
  dispatch_device("scatter_add", y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch("scatter_add", context_of(y), config_for(size, y), scatter_add_kernel<T>, along, size, index.dim(axis),
           step_of(steps, axis), Divisor(whole[axis]), Divisor(AlongAxis(reached, axis).inner), input<T>(x),
           input<std::int32_t>(index), output<T>(y));
  });
}

}  // namespace jnorm::cuda
