#include <jnorm/autograd/operation.hpp>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/sweep.hpp>
#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

// A composition rounds after each of its steps, and a norm's cubes what it divides by: that leaves float16. So the
// narrow dtypes keep to float32 on the way.
Var widened(const Var& x) {
  const DType wide = statistics_dtype(x.dtype());
  return x.dtype() == wide ? x : to(x, wide);
}

}  // namespace

void Operation::recorded_vjp(RecordedPullback& back) const {
  Tape& tape = back.tape();
  // A copy of the composition beside the original: the same inputs, so its gradients are the original's.
  std::vector<Var> inputs;
  std::vector<Var> wanted;
  std::vector<std::size_t> wanted_numbers;
  for (std::size_t i = 0; i < back.node().input_count; ++i) {
    inputs.push_back(widened(back.input(i)));
    if (!back.wants(i)) continue;
    wanted.push_back(back.input(i));
    wanted_numbers.push_back(i);
  }
  if (wanted.empty()) return;
  const Var y = to(composed(inputs), back.cotangent().dtype());
  const std::vector<Var> gradients = tape.recorded_gradients(y, wanted, back.cotangent(), back.node().line);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].defined()) back.give(wanted_numbers[i], gradients[i]);
  }
}

Var Operation::composed(std::span<const Var> /*inputs*/) const {
  fail(ErrorKind::state, "{}: it has no composed definition, so it can't be differentiated again", description().name);
}

}  // namespace jnorm
