// What a tape says of the memory that it holds.

#include <doctest/doctest.h>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/recompute.hpp>

using namespace jnorm;

TEST_CASE("memory: values, what is saved, and gradients are counted in bytes") {
  Tape tape;
  const Var x = tape.variable(zeros({10, 4}, DType::float64));  // 320 bytes
  const Var y = layer_norm(x);                                  // 320, and a mean and a 1/s for 10 rows
  tape.backward(sum(y));
  const TapeMemory memory = tape.memory();
  CHECK(memory.nodes == 3);
  CHECK(memory.value_bytes == 320 + 320 + 8);
  CHECK(memory.saved_bytes == 2 * 80);
  CHECK(memory.gradient_bytes == 320);
}

TEST_CASE("memory: shared storage counts once, and a parameter's not at all") {
  Tape tape;
  Parameter weight("weight", zeros({100}, DType::float64));
  const Var x = tape.parameter(weight);
  reshape(x, {10, 10});
  CHECK(tape.memory().value_bytes == 0);
  const Var y = tape.variable(zeros({100}, DType::float64));
  reshape(y, {10, 10});
  CHECK(tape.memory().value_bytes == 800);
}

TEST_CASE("memory: the peak is what a backward needed beside the values, and reset forgets it") {
  Tape tape;
  const Var x = tape.variable(zeros({100}, DType::float64));
  const Var y = exp(exp(x));
  constexpr Index size = 800;  // bytes of one value
  const Index values = 3 * size;
  CHECK(tape.memory().peak_bytes == values);
  tape.backward(y, {.cotangent = ones({100}, DType::float64)});
  CHECK(tape.memory().peak_bytes == values + 2 * size);  // the cotangents of an output and its input
  tape.reset();
  CHECK(tape.memory().peak_bytes == 0);
  CHECK(tape.memory().total() == tape.memory().node_bytes);
}

TEST_CASE("memory: a detached value adds nothing to the peak") {
  Tape tape;
  detach(tape.variable(zeros({100}, DType::float64)));
  CHECK(tape.memory().peak_bytes == 800);
}

TEST_CASE("memory: the peak counts the output of a recomputed part that is a view of a dropped value") {
  Tape tape;
  const Var x = tape.variable(zeros({100}, DType::float64));
  exp(exp(recompute([](const Var& a) { return reshape(exp(a), {10, 10}); }, x)));
  CHECK(tape.memory().peak_bytes == 4 * 800);
}

TEST_CASE("memory: free_values lowers the peak of a chain to the forward's") {
  const auto peak = [](bool free_values) {
    Tape tape;
    Var x = tape.variable(zeros({1000}, DType::float64));
    for (int i = 0; i < 20; ++i) x = tanh(x);
    tape.backward(x, {.cotangent = ones({1000}, DType::float64), .free_values = free_values});
    return tape.memory();
  };
  CHECK(peak(true).value_bytes == 2 * 8000);  // the variable and the end
  CHECK(peak(true).peak_bytes <= peak(false).peak_bytes);
}

TEST_CASE("memory: printed on one line") {
  Tape tape;
  tape.variable(zeros({2}, DType::float32));
  CHECK(to_string(tape.memory()).find("1 nodes in ") == 0);
  CHECK(to_string(tape.memory()).find("values 8 bytes") != std::string::npos);
}
