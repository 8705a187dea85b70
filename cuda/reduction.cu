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

// What a pass reads as [outer, length, inner]: elements, or states of parts.
template <class T>
struct Source {
  const T* data;
  Middle middle;

  // In columns; rows find for themselves where packs begin. Where nothing is split, columns go to as many threads as
  // there are.
  int pack_size(Split split) const {
    if (middle.inner == 1) return kPackSize<T>;
    return split == Split::allowed && packs_fit<kPackSize<T>>(data, middle.inner) ? kPackSize<T> : 1;
  }
};

// The states of parts, between two passes.
template <class State>
class States {
 public:
  States(Index count, Device device)
      : words_(Tensor::uninitialized({count, Index{sizeof(State)} / 4}, DType::float32, device)) {}
  Results results() const { return {.data = words_.device_data(), .states = true}; }
  Source<State> source(const Middle& middle) const { return {static_cast<const State*>(words_.device_data()), middle}; }

 private:
  Tensor words_;
};

Results results_in(const Destination& y) { return {y.tensor.device_data(), y.tensor.dtype(), y.add}; }

template <class Operation>
class Reducer {
 public:
  using State = typename Operation::State;
  Reducer(const char* name, Device device, const Operation& operation)
      : name_(name), device_(device), operation_(operation) {}

  // To y [outer, inner], by way of parts where that pays.
  template <class T>
  void reduce(const Source<T>& x, Split split, const Results& y) const {
    const auto& [outer, length, inner] = x.middle;
    const ReductionPlan plan = reduction_plan(outer, length, inner, x.pack_size(split), split);
    if (plan.parts == 1) return pass(x, plan, split, y);
    const States<State> states(outer * plan.parts * inner, device_);
    pass(x, plan, split, states.results());
    reduce(states.source({outer, plan.parts, inner}), Split::no, y);
  }

  template <class T>
  States<State> states_of(const Source<T>& x) const {
    States<State> states(x.middle.outer * x.middle.inner, device_);
    reduce(x, Split::allowed, states.results());
    return states;
  }

 private:
  // To y [outer, parts, inner].
  template <class T>
  void pass(const Source<T>& x, const ReductionPlan& plan, Split split, const Results& y) const {
    const int pack_size = x.pack_size(split);
    const auto kernel = plan.inner == 1  ? reduce_rows_kernel<Operation, T>
                        : pack_size == 1 ? reduce_columns_kernel<1, Operation, T>
                                         : reduce_columns_kernel<kPackSize<T>, Operation, T>;
    launch(name_, context_of(device_), reduction_config(plan, pack_size, sizeof(State)), kernel, operation_, x.data, y,
           plan);
  }

  const char* name_;
  Device device_;
  Operation operation_;
};

// x [outer, length, inner] to y [outer, inner], which has elements.
template <template <class> class Operation, class... Settings>
void reduce_middle(const char* name, const Tensor& x, const Middle& middle, Split split, const Destination& y,
                   Settings... settings) {
  dispatch_device(name, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Reducer reducer(name, x.device(), Operation<T>{settings...});
    reducer.reduce(Source<T>{input<T>(x), middle}, split, results_in(y));
  });
}

template <template <class> class Operation, class... Settings>
void reduce_axes(const char* name, const Tensor& x, std::uint32_t kept, const Tensor& y, Settings... settings) {
  if (y.size() == 0) return;
  const Destination result{.tensor = y};
  if (x.size() == 0) return reduce_middle<Operation>(name, x, {y.size(), 0, 1}, Split::no, result, settings...);
  dispatch_device(name, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Reducer reducer(name, x.device(), Operation<T>{settings...});
    MergedAxes axes(x.shape(), kept);
    const Source<T> elements{input<T>(x), axes.take_middle()};
    if (axes.all_stay()) return reducer.reduce(elements, Split::allowed, results_in(result));
    auto states = reducer.states_of(elements);
    Middle middle = axes.take_middle();
    for (; !axes.all_stay(); middle = axes.take_middle()) states = reducer.states_of(states.source(middle));
    reducer.reduce(states.source(middle), Split::allowed, results_in(result));
  });
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

void variance(const Tensor& x, std::uint32_t kept, double divisor, const Tensor& y) {
  reduce_axes<VarianceOf>("variance", x, kept, y, divisor);
}

void column_sum(const Tensor& x, const Destination& y) {
  if (y.tensor.size() == 0) return;
  const Middle middle{y.tensor.rows(), x.size() / y.tensor.size(), y.tensor.row_length()};
  reduce_middle<SumOf>("column_sum", x, middle, Split::allowed, y);
}

void argmax(const Tensor& x, int axis, const Tensor& y) {
  if (y.size() == 0) return;
  Middle middle{1, x.dim(axis), 1};
  for (int before = 0; before < axis; ++before) middle.outer *= x.dim(before);
  for (int after = axis + 1; after < x.rank(); ++after) middle.inner *= x.dim(after);
  reduce_middle<ArgMaxOf>("argmax", x, middle, Split::no, {.tensor = y});
}

}  // namespace jnorm::cuda
