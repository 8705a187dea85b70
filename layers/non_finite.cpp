#include <jnorm/layers/non_finite.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/ranges.h>

#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

// The place of the first NaN or infinity among the elements, or -1.
Index first_non_finite(const Tensor& x) {
  Index element = -1;
  if (x.defined() && x.dtype() != DType::int32) x.device().kernels().first_non_finite(x, element);
  return element;
}

// Element 17 of [3, 10] -> "[1, 7]".
std::string indices_of(Index element, const Shape& shape) {
  std::vector<Index> indices(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    indices[static_cast<std::size_t>(axis)] = element % shape[axis];
    element /= shape[axis];
  }
  return fmt::format("[{}]", fmt::join(indices, ", "));
}

// "inf at [1, 7]"
std::string describe_element(const Tensor& x, Index element) {
  return fmt::format("{} at {}", to_words(x.reshape({x.size()}).at({element})), indices_of(element, x.shape()));
}

bool reads(const Node& node, NodeIndex index) {
  const auto end = node.inputs.begin() + node.input_count;
  return std::find(node.inputs.begin(), end, index) != end;
}

}  // namespace

std::string to_words(double value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

std::string describe_non_finite_value(const Tape& tape) {
  const NodeIndex index = tape.first_non_finite();
  if (index == kNone) return "";
  const Tensor& value = tape.node(index).value;
  return fmt::format("the first value that isn't finite is {} of {} {}",
                     describe_element(value, first_non_finite(value)), value.shape(), tape.describe(index));
}

std::string describe_non_finite_weight(const NamedTensors& weights) {
  for (const auto& [name, tensor] : weights) {
    const Index element = first_non_finite(tensor);
    if (element >= 0) return fmt::format("weight {} {} is {}", name, tensor.shape(), describe_element(tensor, element));
  }
  return "";
}

std::string describe_non_finite_gradient(const Var& y) {
  Tape& tape = y.tape();
  NodeIndex culprit = kNone;
  std::string element;
  std::vector<std::string> sources;  // the operations that gave the culprit its gradient
  std::vector<NodeIndex> passed;     // whose gradients are finite
  BackwardOptions options;
  options.observe = [&](NodeIndex index, const Tensor& gradient) {
    if (culprit != kNone) return;
    const Index found = first_non_finite(gradient);
    if (found < 0) return passed.push_back(index);
    culprit = index;
    element = describe_element(gradient, found);
  };
  tape.backward(y, options);
  if (culprit == kNone) return "";
  for (const NodeIndex index : passed) {
    if (reads(tape.node(index), culprit)) sources.push_back(tape.describe(index));
  }
  return fmt::format("the first gradient that isn't finite is {} of {} {}, and comes out of the derivative of {}",
                     element, tape.node(culprit).value.shape(), tape.describe(culprit), fmt::join(sources, " or "));
}

}  // namespace jnorm
