#include <jnorm/autograd/custom.hpp>

#include <jnorm/autograd/site.hpp>
#include <jnorm/autograd/sweep.hpp>
#include <jnorm/core/operations.hpp>

namespace jnorm {

namespace {

// Copy k of a tensor with a leading axis: [K, ...] -> [...].
Tensor copy_of(const Tensor& stacked, Index k, const Shape& shape) {
  return dispatch_floating("custom", stacked.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    Tensor slice = Tensor::uninitialized(shape, stacked.dtype());
    std::copy_n(stacked.data<T>() + k * shape.size(), shape.size(), slice.output_data<T>());
    return slice;
  });
}

void write_copy(const Tensor& stacked, Index k, const Tensor& slice) {
  dispatch_floating("custom", stacked.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::copy_n(slice.data<T>(), slice.size(), stacked.output_data<T>() + k * slice.size());
  });
}

// Lambdas run in a wide dtype.
Tensor widened(const Tensor& x) { return x.to(statistics_dtype(x.dtype())); }

std::vector<Tensor> widened(std::vector<Tensor> tensors) {
  for (Tensor& tensor : tensors) tensor = widened(tensor);
  return tensors;
}

class CustomOperation final : public Operation {
 public:
  explicit CustomOperation(const CustomFunction* function) : function_(function) {}

  const Description& description() const override { return function_->description(); }

  void vjp(Pullback& back) const override {
    const Tensor& dy = back.cotangent();
    if (back.copies() == 0) {
      std::array<Tensor, 3> gradients = checked_backward(inputs_of(back), back.output(), dy);
      for (std::size_t i = 0; i < function_->arity(); ++i) {
        if (back.wants(i)) back.give(i, std::move(gradients[i]));
      }
      return;
    }
    std::array<Tensor, 3> stacked;
    for (std::size_t i = 0; i < function_->arity(); ++i) {
      stacked[i] = Tensor::uninitialized(back.shaped(back.input(i).shape()), dy.dtype());
    }
    for (Index k = 0; k < back.copies(); ++k) {
      const Tensor cotangent = copy_of(dy, k, back.output().shape());
      const std::array<Tensor, 3> gradients = checked_backward(inputs_of(back), back.output(), cotangent);
      for (std::size_t i = 0; i < function_->arity(); ++i) write_copy(stacked[i], k, gradients[i]);
    }
    for (std::size_t i = 0; i < function_->arity(); ++i) {
      if (back.wants(i)) back.give(i, std::move(stacked[i]));
    }
  }

  // Only the vjp is known, so J x_dot takes one vjp an element of y: row e of J is the vjp of the unit cotangent e.
  void jvp(Pushforward& push) const override {
    const Tensor& y = push.output();
    const Index copies = std::max<Index>(push.copies(), 1);
    std::vector<double> result(static_cast<std::size_t>(copies * y.size()));
    for (Index e = 0; e < y.size(); ++e) {
      std::vector<double> unit(static_cast<std::size_t>(y.size()));
      unit[static_cast<std::size_t>(e)] = 1.0;
      const std::array<Tensor, 3> row = checked_backward(inputs_of(push), y, tensor(y.shape(), unit, y.dtype()));
      for (std::size_t i = 0; i < function_->arity(); ++i) {
        if (!push.has(i)) continue;
        for (Index k = 0; k < copies; ++k) {
          result[static_cast<std::size_t>(k * y.size() + e)] +=
              dot(row[i], copy_of(push.tangent(i), k, push.input(i).shape()));
        }
      }
    }
    push.give(tensor(push.shaped(y.shape()), result, y.dtype()));
  }

 private:
  template <class Sweeping>
  std::vector<Tensor> inputs_of(const Sweeping& sweeping) const {
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < function_->arity(); ++i) inputs.push_back(sweeping.input(i));
    return inputs;
  }

  std::array<Tensor, 3> checked_backward(const std::vector<Tensor>& inputs, const Tensor& y, const Tensor& dy) const {
    std::array<Tensor, 3> gradients = function_->backward(widened(inputs), widened(y), widened(dy));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      expect(gradients[i].shape() == inputs[i].shape(),
             "{}: its backward made a gradient of shape {} for input {}, which is {}", description().name,
             gradients[i].shape(), i, inputs[i].shape());
      gradients[i] = gradients[i].to(inputs[i].dtype());
    }
    return gradients;
  }

  const CustomFunction* function_;  // the tape keeps it alive
};

}  // namespace

Var Custom::apply(std::span<const Var> inputs, SourceLine line) const {
  const char* const name = function_->description().name;
  expect(!inputs.empty() && inputs.size() == function_->arity(), line, "{}: it takes {} inputs, got {}", name,
         function_->arity(), inputs.size());
  const Site site = site_of(name, inputs[0], line);
  expect_numbers(name, inputs[0], site);
  std::vector<Tensor> values;
  for (const Var& input : inputs) {
    expect_same_kind(name, inputs[0], input, site);
    values.push_back(input.value());
  }
  Tensor y = function_->forward(widened(values)).to(values[0].dtype());
  Tape& tape = inputs[0].tape();
  tape.keep_alive(function_);
  return tape.record_node(tape.keep(CustomOperation(function_.get())), inputs, std::move(y), {}, line);
}

}  // namespace jnorm
