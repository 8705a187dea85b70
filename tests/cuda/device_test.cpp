// Tensors, memory and errors of a device that isn't the CPU.

#include <string>

#include <doctest/doctest.h>

#include <jnorm/autograd/linear_map.hpp>
#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/cuda/device.hpp>
#include <jnorm/layers/module.hpp>

#include "cuda/device_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

// The message of the Error that f() throws.
template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("device: a tensor goes there and comes back with the same bits, in every dtype") {
  for (const DType dtype : kAllTypes) {
    const Tensor x = dtype == DType::int32 ? indices({2, 3}, std::vector<std::int32_t>{1, -2, 3, 4, 5, 6})
                                           : random({2, 3}, dtype, 1);
    const Tensor there = x.to(test_device());
    CHECK(there.device() == test_device());
    CHECK(identical(there.on_host(), x));
  }
}

TEST_CASE("device: one of no elements goes there and back too") {
  CHECK(full({3, 0}, 1.0).to(test_device()).on_host().shape() == Shape{3, 0});
}

TEST_CASE("device: to() of a tensor that is there already is itself") {
  const Tensor x = on_device(ones({2}));
  CHECK(x.to(test_device()).shares_storage_with(x));
}

TEST_CASE("device: indices keep their values on the host, and are read without a copy") {
  const Tensor tokens = indices({3}, std::vector<std::int32_t>{7, 8, 9});
  CHECK(tokens.to(test_device()).on_host().shares_storage_with(tokens));
}

TEST_CASE("device: indices that the host changes later are the old ones there") {
  Tensor tokens = indices({3}, std::vector<std::int32_t>{7, 8, 9});
  const Tensor there = tokens.to(test_device());
  tokens.mutable_data<std::int32_t>()[0] = 1;
  CHECK(there.values() == std::vector<double>{7, 8, 9});
  CHECK(there.on_host().values() == std::vector<double>{7, 8, 9});
}

TEST_CASE("device: a clone has memory of its own") {
  const Tensor x = on_device(tensor({1, 2}));
  const Tensor copy = x.clone();
  x.device().kernels().fill(x, 5.0);
  CHECK(copy.values() == std::vector<double>{1, 2});
}

TEST_CASE("device: the host can't read elements, and is told how to") {
  const Tensor x = on_device(ones({2, 2}));
  const std::string message = message_of([&] { (void)x.data<float>(); });
  CHECK(message ==
        "tensor [2, 2]: its elements are on cuda:0, where the host can't read them; copy it with "
        "to(Device::cpu())");
}

TEST_CASE("device: item, at and values read them there") {
  const Tensor x = on_device(tensor({{1, 2}, {3, 4}}));
  CHECK(x.at({1, 0}) == 3.0);
  CHECK(x.values() == std::vector<double>{1, 2, 3, 4});
  CHECK(on_device(full({}, 2.5)).item() == 2.5);
}

TEST_CASE("device: two devices in one operation are refused, by name and place") {
  Tape tape;
  const Var here = tape.variable(ones({2}), "here");
  const Var there = tape.variable(on_device(ones({2})), "there");
  const std::string message = message_of([&] { (void)(here + there); });
  CHECK(contains(message, "add: "));
  CHECK(contains(message, "cuda:0"));
  CHECK(contains(message, "device_test.cpp:"));
}

TEST_CASE("device: two devices in one call of a kernel are refused") {
  const Tensor y = on_device(ones({2}));
  const std::string message = message_of([&] { device_kernels().affine(ones({2}), 1.0, 0.0, y); });
  CHECK(message == "affine: the tensors [2] and [2] are on two devices, cpu and cuda:0; move one with to(device)");
}

TEST_CASE("device: targets and tokens out of range are refused before a kernel runs") {
  Tape tape;
  const Var logits = tape.variable(on_device(zeros({2, 3})), "logits");
  const Tensor targets = on_device(indices({2}, std::vector<std::int32_t>{0, 3}));
  CHECK(contains(message_of([&] { cross_entropy(logits, targets); }),
                 "cross_entropy: target 3 at position 1 is outside [0, 3)"));
  CHECK(
      contains(message_of([&] { embedding(logits, targets); }), "embedding: token 3 at position 1 is outside [0, 2)"));
}

TEST_CASE("device: a dense Jacobian of what it computed is the CPU's") {
  const Tensor values = random({3, 4}, DType::float64, 1);
  const auto jacobian_on = [&](Device device) {
    Tape tape;
    const Var x = tape.variable(values.to(device), "x");
    return jacobian(square(x) * 3.0, x);
  };
  CHECK(distance(jacobian_on(test_device()), jacobian_on(Device::cpu())) <= 1e-14);
}

TEST_CASE("device: memory that is given back serves the next tensor of its size") {
  const std::int64_t before = [] {
    const Tensor warm = on_device(ones({1000}));
    return cuda::memory_statistics(test_device()).system_allocations;
  }();
  const Tensor again = on_device(ones({1000}));
  CHECK(cuda::memory_statistics(test_device()).system_allocations == before);
}

TEST_CASE("device: what it has in use is counted, and the most of it") {
  const std::int64_t before = cuda::memory_statistics(test_device()).bytes_in_use;
  {
    const Tensor x = on_device(ones({1 << 20}));
    CHECK(cuda::memory_statistics(test_device()).bytes_in_use == before + (1 << 22));
  }
  CHECK(cuda::memory_statistics(test_device()).bytes_in_use == before);
  CHECK(cuda::memory_statistics(test_device()).peak_bytes >= before + (1 << 22));
}

TEST_CASE("device: without memory left the error says what was asked, is free and was in use; the device goes on") {
  const Index elements = Index{1} << 46;
  const std::string message =
      message_of([&] { (void)Tensor::uninitialized({elements}, DType::float64, test_device()); });
  CHECK(contains(message, "cuda:0: out of memory: 524288.00 GiB were asked for, "));
  CHECK(contains(message, " are free, and "));
  CHECK(contains(message, "take a smaller batch or context, or fewer layers"));
  CHECK(on_device(tensor({1, 2})).values() == std::vector<double>{1, 2});
}

TEST_CASE("device: where a module has no memory left, the error names it") {
  struct TooLarge : Layer {
    Var forward(const Var& x, const Pass& /*pass*/, SourceLine line) override {
      return broadcast_to(x, {Index{1} << 22, Index{1} << 22}, line);
    }
  };
  struct Outer : Layer {
    Outer() : inner(add("inner", std::make_unique<TooLarge>())) {}
    Var forward(const Var& x, const Pass& pass, SourceLine line) override { return inner(x, pass, line); }
    TooLarge& inner;
  } outer;
  Tape tape;
  const Var x = tape.constant(on_device(ones({1, 1})), "x");
  const std::string message = message_of([&] { outer(x); });
  CHECK(contains(message, "out of memory: 65536.00 GiB were asked for"));
  CHECK(contains(message, "(inner)"));
}
