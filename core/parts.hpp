#pragma once

// Regular parts of tensors, unrecorded; names and meanings are those of <jnorm/autograd/ops/parts.hpp>.

#include <array>
#include <optional>
#include <span>

#include <jnorm/core/tensor.hpp>

namespace jnorm {

// A range of an axis as Python writes start:stop:step. Negative bounds count from the end; bounds beyond the ends are
// cut; a bound that is left out is the end. The step is positive.
struct Range {
  std::optional<Index> start = {};
  std::optional<Index> stop = {};
  Index step = 1;
};

// What ranges choose of a shape: sizes[a] elements of axis a, from starts[a] on, in steps of steps[a].
struct Part {
  Shape sizes;
  std::array<Index, Shape::kMaxRank> starts{};
  std::array<Index, Shape::kMaxRank> steps{};
};
// Axes without a range are whole. Throws Error(argument) on more ranges than axes, or a step that isn't positive.
Part part_of(const Shape& shape, std::span<const Range> ranges);
Part part_along(const Shape& shape, int axis, const Range& range);

// The part of x; and its adjoint: x as that part of a tensor of the shape `whole`, zeros elsewhere. Both tensors may
// have one leading axis more than the part, which is whole.
Tensor slice(const Tensor& x, const Part& part);
Tensor place(const Tensor& x, const Part& part, const Shape& whole);

// One after another along an axis. Throws Error(argument) if there are none, or dtypes, devices or other axes differ.
Tensor concat(std::span<const Tensor> parts, int axis);

}  // namespace jnorm
