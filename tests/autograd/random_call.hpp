#pragma once

// Well-formed calls of operations, drawn at random: what the property tests run.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <jnorm/autograd/finite_differences.hpp>
#include <jnorm/core/random.hpp>

namespace jnorm::test {

// How far an element of the first input reaches in a call whose output has that input's shape.
enum class Reach { element, row, anywhere };

struct RandomCall {
  std::string text;  // the operation and its options: "layer_norm with gamma, eps 0.25"
  DifferentiableFunction function;
  std::vector<Tensor> inputs;  // float64
  Reach reach = Reach::anywhere;
  bool has_limits = false;  // at infinities, where the composed definition has 0 * inf
};

inline std::string to_string(const RandomCall& call) {
  std::string text = call.text + ", inputs";
  for (const Tensor& input : call.inputs) text += " " + to_string(input.shape());
  return text;
}

// Draws sizes, options and numbers. Everything follows from the seed.
class Draw {
 public:
  // With large sizes, the first axis of a shape is so long that kernels take several threads.
  enum class Sizes { small, large };
  explicit Draw(std::uint64_t seed, Sizes sizes = Sizes::small) : rng_(seed), large_(sizes == Sizes::large) {}

  Index between(Index low, Index high) { return low + rng_.below(high - low + 1); }
  bool coin() { return rng_.below(2) == 0; }
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[rng_.below(static_cast<Index>(choices.size()))];
  }

  Index size() { return one_of<Index>({0, 1, 1, 2, 2, 3, 3, 4, 5}); }
  Index present_size() { return between(1, 5); }
  // Of an axis before others with so many elements.
  Index leading_size(Index behind) { return large_ ? 50'000 / std::max<Index>(behind, 1) + 1 : size(); }

  Shape shape(int least_rank, int most_rank) {
    Shape result;
    const auto rank = static_cast<int>(between(least_rank, most_rank));
    for (int axis = 1; axis < rank; ++axis) result = result.with_leading(size());
    return rank == 0 ? result : result.with_leading(leading_size(result.size()));
  }
  // A shape that broadcasts to this one: some axes are 1, some of the first ones are missing.
  Shape partner(Shape whole) {
    for (int axis = 0; axis < whole.rank(); ++axis) {
      if (between(0, 3) == 0) whole = whole.with_axis(axis, 1);
    }
    for (Index missing = coin() ? 0 : between(0, whole.rank()); missing > 0; --missing) whole = whole.without_leading();
    return whole;
  }
  int axis_of(const Shape& shape) { return static_cast<int>(between(-shape.rank(), shape.rank() - 1)); }
  std::vector<int> order_of_axes(int rank) {
    std::vector<int> order;
    for (int axis = 0; axis < rank; ++axis) order.insert(order.begin() + between(0, axis), axis);
    return order;
  }

  Tensor normal(const Shape& shape) { return randn(shape, rng_, DType::float64); }
  Tensor positive(const Shape& shape) { return rand_uniform(shape, rng_, 0.5, 2.0, DType::float64); }
  // Of either sign, 0.5 to 2 in size: away from poles and kinks at 0.
  Tensor off_zero(const Shape& shape) {
    Tensor result = positive(shape);
    double* const element = result.mutable_data<double>();
    for (Index i = 0; i < result.size(); ++i) element[i] *= coin() ? 1.0 : -1.0;
    return result;
  }
  Tensor integers(const Shape& shape, Index below) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(shape.size()));
    for (auto& value : values) value = static_cast<std::int32_t>(rng_.below(below));
    return indices(shape, values);
  }
  Tensor mask(const Shape& shape) { return integers(shape, 2); }

 private:
  Rng rng_;
  bool large_;
};

}  // namespace jnorm::test
