#include <doctest/doctest.h>

#include <cmath>

#include <jnorm/autograd/linear_map.hpp>
#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/random.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

Tensor random(const Shape& shape, std::uint64_t seed) {
  Rng rng(seed);
  return randn(shape, rng, DType::float64);
}

}  // namespace

TEST_CASE("rotary: turns each pair by its own angle [ROT.1] [ROT.2]") {
  Tape tape;
  // Angles of 1 and 0.01; the pairs are columns 0 and 2, 1 and 3.
  const Var x = tape.variable(tensor({1, 2, 4}, std::vector<double>{1, 2, 3, 4, 1, 0, 0, 1}, DType::float64));
  CHECK(rotary(x, 1).value() == close({1, 2, 3, 4, 0.540302, -0.00999983, 0.841471, 0.99995}));
}

TEST_CASE("rotary: pairs are those of Hugging Face's files, not neighbours") {
  Tape tape;
  const Var x = tape.variable(tensor({1, 1, 4}, std::vector<double>{1, 0, 0, 0}, DType::float64));
  const Tensor y = rotary(x, 1, {.first_position = 1}).value();
  CHECK(y.at({0, 0, 1}) == 0.0);
  CHECK(y.at({0, 0, 2}) == doctest::Approx(0.841471));
}

TEST_CASE("rotary: every head turns alike, and every sequence starts anew") {
  Tape tape;
  const Tensor pair = tensor({1, 2, 2}, std::vector<double>{1, 2, 3, 4}, DType::float64);
  const std::vector<double> one = rotary(tape.variable(pair), 1, {.first_position = 5}).value().values();
  const Var heads = tape.variable(tensor({1, 2, 4}, std::vector<double>{1, 2, 1, 2, 3, 4, 3, 4}, DType::float64));
  CHECK(rotary(heads, 2, {.first_position = 5}).value().values() ==
        std::vector<double>{one[0], one[1], one[0], one[1], one[2], one[3], one[2], one[3]});
  const Var sequences = tape.variable(tensor({2, 2, 2}, std::vector<double>{1, 2, 3, 4, 1, 2, 3, 4}, DType::float64));
  CHECK(rotary(sequences, 1, {.first_position = 5}).value().values() ==
        std::vector<double>{one[0], one[1], one[2], one[3], one[0], one[1], one[2], one[3]});
}

TEST_CASE("rotary: a later part by its first position is that part of the whole") {
  Tape tape;
  const Var x = tape.variable(random({1, 5, 8}, 1));
  const Var late = rotary(slice(x, 1, {.start = 3}), 2, {.first_position = 3});
  CHECK(late.value().values() == slice(rotary(x, 2), 1, {.start = 3}).value().values());
}

TEST_CASE("rotary: products of queries and keys depend on their distance alone [ROT.6]") {
  const auto product = [](Index query, Index key) {
    Tape tape;
    const Var q = rotary(tape.variable(random({1, 1, 16}, 1)), 2, {.first_position = query});
    const Var k = rotary(tape.variable(random({1, 1, 16}, 2)), 2, {.first_position = key});
    return dot(q.value(), k.value());
  };
  // Angles to 10,000 are off by 1e-12, and the sums have 16 terms of size 1.
  CHECK(product(10'003, 10'000) == doctest::Approx(product(3, 0)).epsilon(1e-10));
  CHECK(product(10'003, 10'000) != doctest::Approx(product(4, 0)).epsilon(1e-10));
}

TEST_CASE("rotary: the gradient is turned back [ROT.3]") {
  Tape tape;
  const Var x = tape.variable(random({1, 1, 2}, 1));
  const Var y = rotary(x, 1, {.first_position = 1});
  const Tensor dy = tensor({1, 1, 2}, std::vector<double>{1, 0}, DType::float64);
  CHECK(tape.gradients(y, {&x, 1}, dy)[0] == close({0.540302, -0.841471}));
  CHECK(tape.push_forward(y, x, dy) == close({0.540302, 0.841471}));  // [ROT.4]
}

TEST_CASE("rotary: its Jacobian is orthogonal [ROT.5]") {
  Tape tape;
  const Var x = tape.variable(random({2, 3, 8}, 1));
  const Tensor j = jacobian(rotary(x, 2, {.first_position = 7}), x);
  const Tensor product = matmul(tape.constant(j), tape.constant(j), true, false).value();
  const std::vector<double> got = product.values(), right = identity(48, DType::float64).values();
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::fabs(got[i] - right[i]) < 1e-15);
}

TEST_CASE("rotary: a far position in float32 and in the narrow types is as right as the type allows") {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    CAPTURE(to_string(dtype));
    Tape tape;
    const Var x = tape.variable(tensor({1, 1, 2}, std::vector<double>{1, 0}, dtype));
    const Tensor y = rotary(x, 1, {.first_position = 1'000'000}).value();
    CHECK(y == close({0.936752, -0.349994}, machine_epsilon(dtype) + 1e-6));
  }
}

TEST_CASE("rotary: what doesn't fit is refused") {
  Tape tape;
  const Var x = tape.variable(zeros({2, 3, 6}));
  const auto refused = [](const auto& call, const char* message) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(message), Error);
  };
  refused([&] { rotary(tape.variable(zeros({3, 6})), 1); }, "rotary: expected x [B, T, heads * d], got [3, 6]");
  refused([&] { rotary(x, 0); }, "rotary: expected a positive number of heads, got 0");
  refused([&] { rotary(x, 4); }, "rotary: 4 heads don't divide the width 6");
  refused([&] { rotary(x, 2); }, "rotary: a head of 3 columns has one without a partner");
  refused([&] { rotary(x, 1, {.base = 0.5}); }, "rotary: expected a finite base from 1 on, got 0.5");
  refused([&] { rotary(x, 1, {.first_position = -1}); }, "expected a first_position from 0 to 2^53 - 3, got -1");
}
