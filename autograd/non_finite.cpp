#include <jnorm/autograd/non_finite.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/ranges.h>

#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

// Element 17 of [3, 10] -> "[1, 7]".
std::string indices_of(Index element, const Shape& shape) {
  std::vector<Index> indices(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    indices[static_cast<std::size_t>(axis)] = element % shape[axis];
    element /= shape[axis];
  }
  return fmt::format("[{}]", fmt::join(indices, ", "));
}

bool reads(const Node& node, NodeIndex index) {
  const auto* const end = node.inputs.begin() + node.input_count;
  return std::find(node.inputs.begin(), end, index) != end;
}

// The operations up to `to` that gave node `index` its gradient: "sqrt (...) or exp (...)".
std::string describe_readers(const Tape& tape, NodeIndex index, NodeIndex to) {
  std::vector<std::string> readers;
  for (NodeIndex i = to + 1; i-- > index;) {
    if (tape.node(i).needs_gradient && reads(tape.node(i), index)) readers.push_back(tape.describe(i));
  }
  return fmt::format("{}", fmt::join(readers, " or "));
}

}  // namespace

std::string to_words(double value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

Index first_non_finite(const Tensor& x) {
  Index element = -1;
  if (x.defined() && x.dtype() != DType::int32) x.device().kernels().first_non_finite(x, element);
  return element;
}

std::string describe_element(const Tensor& x, Index element) {
  return fmt::format("{} at {}", to_words(x.reshape({x.size()}).at({element})), indices_of(element, x.shape()));
}

std::string describe_non_finite_value(const Tape& tape) {
  const NodeIndex index = tape.first_non_finite();
  if (index == kNone) return "";
  const Tensor& value = tape.node(index).value;
  return fmt::format("the first value that isn't finite is {} of {} {}",
                     describe_element(value, first_non_finite(value)), value.shape(), tape.describe(index));
}

std::string describe_non_finite_gradient(const Var& y) {
  Tape& tape = y.tape();
  std::string description;
  BackwardOptions options;
  options.observe = [&](NodeIndex index, const Tensor& gradient) {
    if (!description.empty()) return;
    const Index element = first_non_finite(gradient);
    if (element < 0) return;
    description =
        fmt::format("the first gradient that isn't finite is {} of {} {}, and comes out of the derivative of {}",
                    describe_element(gradient, element), tape.node(index).value.shape(), tape.describe(index),
                    describe_readers(tape, index, y.index()));
  };
  tape.backward(y, options);
  return description;
}

void Tape::expect_finite_value(NodeIndex index) const {
  const Node& made = node(index);
  Index element = jnorm::first_non_finite(made.value);
  if (element < 0) return;
  bool passes_a_mask_on = false;
  for (const NodeIndex input : made.all_inputs()) {
    passes_a_mask_on = passes_a_mask_on || jnorm::first_non_finite(node(input).value) >= 0;
  }
  if (passes_a_mask_on) {
    const std::vector<double> values = made.value.values();
    const auto nan = std::find_if(values.begin(), values.end(), [](double v) { return std::isnan(v); });
    if (nan == values.end()) return;
    element = nan - values.begin();
  }
  fail(ErrorKind::non_finite, "{} made {} in its {} result, of finite inputs; it is the first on this tape",
       describe(index), describe_element(made.value, element), made.value.shape());
}

void Tape::fail_non_finite_gradient(NodeIndex index, NodeIndex to, const Tensor& gradient) const {
  const std::string element = describe_element(gradient, jnorm::first_non_finite(gradient));
  if (index == to) {
    fail(ErrorKind::non_finite, "backward: the cotangent that it was given for {} holds {}", describe(index), element);
  }
  fail(ErrorKind::non_finite, "backward: the derivative of {} made the first gradient that isn't finite, {} of {} {}",
       describe_readers(*this, index, to), element, node(index).value.shape(), describe(index));
}

}  // namespace jnorm
