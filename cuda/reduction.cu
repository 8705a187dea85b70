// Reductions over axes. Any pattern of axes is one or several reductions of [outer, length, inner] over the middle; and
// one of these is a second one of its partial results, where a first pass is cut into parts.

#include <jnorm/cuda/kernels.hpp>
#include <jnorm/cuda/launch.cuh>
#include <jnorm/cuda/reduction_kernels.cuh>

namespace jnorm::cuda {

namespace {

struct Middle {
  Index outer, length, inner;
};

// A tensor's axes, where neighbours that both stay or both go are one.
class MergedAxes {
 public:
  MergedAxes(const Shape& shape, std::uint32_t kept) {
    for (int axis = 0; axis < shape.rank(); ++axis) push({shape[axis], (kept >> axis & 1u) != 0});
  }

  bool all_stay() const { return last_gone() < 0; }

  // Removes the last axis that goes. Where none does, each element is a middle of its own.
  Middle take_middle() {
    const MergedAxes before = *this;
    const int gone = last_gone();
    Middle middle{1, 1, 1};
    count_ = 0;
    for (int axis = 0; axis < before.count_; ++axis) {
      const Axis& own = before.axes_[axis];
      if (axis == gone) {
        middle.length = own.size;
        continue;
      }
      (gone < 0 || axis < gone ? middle.outer : middle.inner) *= own.size;
      push(own);
    }
    return middle;
  }

 private:
  struct Axis {
    Index size;
    bool stays;
  };
  void push(const Axis& axis) {
    if (axis.size == 1) return;
    if (count_ > 0 && axes_[count_ - 1].stays == axis.stays) {
      axes_[count_ - 1].size *= axis.size;
    } else {
      axes_[count_++] = axis;
    }
  }
  int last_gone() const {
    int axis = count_ - 1;
    while (axis >= 0 && axes_[axis].stays) --axis;
    return axis;
  }

  Axis axes_[Shape::kMaxRank]{};
  int count_ = 0;
};

template <class T>
int pack_size_of(const Tensor& x, Index inner, Split split) {
  if (inner == 1) return kPackSize<T>;
  return split == Split::allowed && packs_fit<kPackSize<T>>(input<T>(x), inner) ? kPackSize<T> : 1;
}

// One pass: to y [outer, parts, inner].
template <class T, class Operation>
void launch_reduction(const char* name, const Operation& operation, const Tensor& x, const ReductionPlan& plan,
                      int pack_size, const Destination& y) {
  const LaunchConfig config = reduction_config(plan, pack_size, sizeof(typename Operation::State));
  const auto kernel = plan.inner == 1  ? reduce_rows_kernel<Operation, T>
                      : pack_size == 1 ? reduce_columns_kernel<1, Operation, T>
                                       : reduce_columns_kernel<kPackSize<T>, Operation, T>;
  launch(name, context_of(x), config, kernel, operation, input<T>(x),
         Results{y.tensor.device_data(), y.tensor.dtype(), y.add}, plan);
}

// x [outer, length, inner] to y [outer, inner], which has elements.
template <template <class> class Operation, class... Settings>
void reduce_middle(const char* name, const Tensor& x, const Middle& middle, const Destination& y,
                   Settings... settings) {
  const auto [outer, length, inner] = middle;
  dispatch_device(name, x.dtype(), [&, outer = outer, length = length, inner = inner](auto tag) {
    using T = typename decltype(tag)::type;
    using Partial = typename Operation<T>::Partial;
    const Operation<T> operation{settings...};
    const int pack_size = pack_size_of<T>(x, inner, Split::allowed);
    const ReductionPlan plan = reduction_plan(outer, length, inner, pack_size, Split::allowed);
    if (plan.parts == 1) return launch_reduction<T>(name, operation, x, plan, pack_size, y);

    const Tensor partial = Tensor::uninitialized({outer, plan.parts, inner}, dtype_of<Partial>, x.device());
    launch_reduction<T>(name, operation, x, plan, pack_size, {.tensor = partial});
    const int second_pack_size = pack_size_of<Partial>(partial, inner, Split::no);
    launch_reduction<Partial>(name, Operation<Partial>{settings...}, partial,
                              reduction_plan(outer, plan.parts, inner, second_pack_size, Split::no), second_pack_size,
                              y);
  });
}

template <template <class> class Operation, class... Settings>
void reduce_axes(const char* name, const Tensor& x, std::uint32_t kept, const Tensor& y, Settings... settings) {
  if (y.size() == 0) return;
  const Destination result{.tensor = y};
  if (x.size() == 0) return reduce_middle<Operation>(name, x, {y.size(), 0, 1}, result, settings...);
  MergedAxes axes(x.shape(), kept);
  Tensor from = x;
  Middle middle = axes.take_middle();
  while (!axes.all_stay()) {
    const DType wide =
        std::is_same_v<typename Operation<float>::Partial, double> ? DType::float64 : statistics_dtype(x.dtype());
    const Tensor partial = Tensor::uninitialized({middle.outer, middle.inner}, wide, x.device());
    reduce_middle<Operation>(name, from, middle, {.tensor = partial}, settings...);
    from = partial;
    middle = axes.take_middle();
  }
  reduce_middle<Operation>(name, from, middle, result, settings...);
}

}  // namespace

void sum(const Tensor& x, std::uint32_t kept, const Tensor& y) { reduce_axes<SumOf>("sum", x, kept, y); }

void reduce(ReduceOp op, const Tensor& x, std::uint32_t kept, const Tensor& y) {
  switch (op) {
    case ReduceOp::max: return reduce_axes<MaxOf>("max", x, kept, y, 1);
    case ReduceOp::min: return reduce_axes<MaxOf>("min", x, kept, y, -1);
    case ReduceOp::l2_norm: return reduce_axes<L2NormOf>("l2_norm", x, kept, y);
    case ReduceOp::logsumexp: return reduce_axes<LogSumExpOf>("logsumexp", x, kept, y);
  }
}

void column_sum(const Tensor& x, const Destination& y) {
  if (y.tensor.size() == 0) return;
  const Middle middle{y.tensor.rows(), x.size() / y.tensor.size(), y.tensor.row_length()};
  reduce_middle<SumOf>("column_sum", x, middle, y);
}

void argmax(const Tensor& x, int axis, const Tensor& y) {
  if (y.size() == 0) return;
  Middle middle{1, x.dim(axis), 1};
  for (int before = 0; before < axis; ++before) middle.outer *= x.dim(before);
  for (int after = axis + 1; after < x.rank(); ++after) middle.inner *= x.dim(after);
  dispatch_device("argmax", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int pack_size = pack_size_of<T>(x, middle.inner, Split::no);
    launch_reduction<T>("argmax", ArgMaxOf<T>{}, x,
                        reduction_plan(middle.outer, middle.length, middle.inner, pack_size, Split::no), pack_size,
                        {.tensor = y});
  });
}

}  // namespace jnorm::cuda
