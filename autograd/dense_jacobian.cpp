#include <jnorm/autograd/dense_jacobian.hpp>

#include <exception>
#include <mutex>

#include <jnorm/autograd/recompute.hpp>
#include <jnorm/autograd/sweep.hpp>
#include <jnorm/core/parallel.hpp>

namespace jnorm {

namespace {

constexpr Index kCotangentsAtOnce = 32;

constexpr Index divide_up(Index a, Index b) { return (a + b - 1) / b; }

// One-hot cotangents for the elements [first, first + count) of a value, and the rows that these lie in.
struct Seeds {
  Index first, count;
  RowRange rows;
};

// How the elements of a value are dealt out to sweeps: a part of one row each, or several whole rows that are short.
class SeedPlan {
 public:
  explicit SeedPlan(const Tensor& y)
      : rows_(y.rows()),
        length_(y.row_length()),
        rows_at_once_(length_ == 0 ? 1 : std::max<Index>(1, kCotangentsAtOnce / length_)),
        parts_(rows_at_once_ > 1 ? 1 : divide_up(length_, kCotangentsAtOnce)),
        part_length_(divide_up(length_, std::max<Index>(1, parts_))) {}

  Index count() const { return divide_up(rows_, rows_at_once_) * parts_; }

  // The last rows come first: they reach the most others, and the longest work shall not be left to the end.
  Seeds operator[](Index number) const {
    number = count() - 1 - number;
    const Index row = number / parts_ * rows_at_once_;
    const RowRange rows{row, std::min(rows_, row + rows_at_once_)};
    const Index begin = number % parts_ * part_length_;
    const Index end = std::min(length_, begin + part_length_);
    return {row * length_ + begin, (rows.count() - 1) * length_ + end - begin, rows};
  }

 private:
  Index rows_, length_, rows_at_once_, parts_, part_length_;
};

Tensor one_hot_cotangents(const Tensor& y, const Seeds& seeds) {
  const Index length = y.row_length(), size = seeds.rows.count() * length;
  Tensor cotangents = zeros({seeds.count, seeds.rows.count(), length}, y.dtype(), y.device());
  y.device().kernels().copy_block(ones({1}, y.dtype(), y.device()),
                                  {.count = seeds.count,
                                   .length = 1,
                                   .to = seeds.first - seeds.rows.begin * length,
                                   .to_stride = size + 1},  // a diagonal
                                  cotangents);
  return cotangents;
}

// Rows of the matrix: the gradient [K, rows, H], and zeros beside it.
void place(const Tensor& gradient, RowRange rows, Index row_length, const Seeds& seeds, const Tensor& matrix) {
  const Kernels& kernels = matrix.device().kernels();
  const Index columns = matrix.dim(1), first = seeds.first * columns;
  const Index begin = rows.begin * row_length, length = rows.count() * row_length;
  const Tensor zero = zeros({columns}, matrix.dtype(), matrix.device());
  const auto clear = [&](Index from, Index to) {
    const BlockCopy block{.count = seeds.count, .length = to - from, .to = first + from, .to_stride = columns};
    kernels.copy_block(zero, block, matrix);
  };
  clear(0, begin);
  kernels.copy_block(
      gradient,
      {.count = seeds.count, .length = length, .from_stride = length, .to = first + begin, .to_stride = columns},
      matrix);
  clear(begin + length, columns);
}

}  // namespace

Tensor dense_jacobian(const Var& to, const Var& from, SourceLine line) {
  Tape& tape = to.tape();
  const Tensor &y = to.value(), &x = from.value();
  const NodeIndex source = from.index();
  Tensor matrix = Tensor::uninitialized({y.size(), x.size()}, x.dtype(), x.device());
  if (matrix.size() == 0) return matrix;
  RecomputedParts parts(tape);
  {
    const Sweep sweep(tape, to.index(), {&source, 1}, "jacobian", line);
    if (!sweep.contains(source)) return zeros(matrix.shape(), x.dtype(), x.device());
    sweep.check_saved_values();
    parts.bring_back(sweep);
  }

  const SeedPlan plan(y);
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const Index grain = y.device() == Device::cpu() ? 1 : plan.count();
  parallel_for(plan.count(), grain, [&](Index begin, Index end) {
    for (Index number = begin; number < end; ++number) {
      try {
        const Seeds seeds = plan[number];
        Sweep sweep(tape, to.index(), {&source, 1}, "jacobian", line);
        sweep.reverse_rows(one_hot_cotangents(y, seeds), seeds.rows);
        const Tensor& gradient = sweep.slot(source);
        const RowRange rows = gradient.defined() ? sweep.rows(source) : RowRange{};
        place(gradient.defined() ? gradient : matrix, rows, x.row_length(), seeds, matrix);
      } catch (...) {
        const std::lock_guard lock(failure_mutex);
        failure = std::current_exception();
      }
    }
  });
  if (failure) std::rethrow_exception(failure);
  return matrix;
}

}  // namespace jnorm
