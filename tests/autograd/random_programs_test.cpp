// Random programs of a few dozen operations, with values used twice, unused ones, parameters and constants: all sweeps
// must agree on them, and parts that are recomputed must change nothing.

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

#include <jnorm/autograd/linear_map.hpp>
#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/recompute.hpp>
#include <jnorm/core/random.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

const Shape kShape{2, 3};  // of all values between operations
constexpr Index kSize = 6;
constexpr std::uint64_t kPrograms = 300;

// a and b [2, 3], w [3].
using Step = Var (*)(const Var& a, const Var& b, const Var& w);
constexpr std::array<Step, 16> kSteps{
    [](const Var& a, const Var& b, const Var&) { return a + b; },
    [](const Var& a, const Var&, const Var& w) { return tanh(a) * w; },
    [](const Var& a, const Var& b, const Var&) { return a / (1.5 + square(b)); },
    [](const Var& a, const Var&, const Var&) { return exp(tanh(a)); },
    [](const Var& a, const Var&, const Var&) { return gelu(a); },
    [](const Var& a, const Var&, const Var& w) { return layer_norm(a, w, w); },
    [](const Var& a, const Var&, const Var& w) { return rms_norm(a, w); },
    [](const Var& a, const Var& b, const Var&) { return matmul(matmul(tanh(a), tanh(b), false, true), tanh(a)); },
    [](const Var& a, const Var& b, const Var&) { return tanh(a) * mean(tanh(b), {0}); },
    [](const Var& a, const Var&, const Var&) { return softmax(a, 0); },
    [](const Var& a, const Var& b, const Var&) {
      const auto sequence = [](const Var& x) { return reshape(tanh(x), {1, 2, 3}); };
      return reshape(causal_attention(sequence(a), sequence(b), sequence(a), 1), kShape);
    },
    [](const Var& a, const Var& b, const Var&) {
      return concat({slice(a, 0, {1, 2}), slice(b, 0, {0, 1})}, 0);
    },
    [](const Var& a, const Var&, const Var&) { return dropout(a, 0.3, Rng(7).state(), kSize); },
    [](const Var& a, const Var&, const Var&) {
      return a * a.tape().constant(affine(ones(kShape, a.dtype()), 0.5, 0.0));
    },
    [](const Var& a, const Var&, const Var&) { return transpose(transpose(a) * 0.7); },
    [](const Var& a, const Var& b, const Var&) { return tanh(a) - logsumexp(b, {-1}, Keep::yes); },
};

class Program {
 public:
  Program(std::uint64_t seed, Parameter& weight, bool recomputed) : weight_(weight), recomputed_(recomputed) {
    Rng rng(seed);
    x = tape.variable(randn(kShape, rng, DType::float64));
    const std::array inputs{x, tape.constant(randn(kShape, rng, DType::float64))};
    y = run(rng, inputs, 2) * (0.5 + square(x));
    u = randn(kShape, rng, DType::float64);
  }

  Tensor gradient() { return tape.gradients(y, {&x, 1}, u)[0]; }
  Var recorded_gradient() { return tape.recorded_gradients(y, {&x, 1}, tape.constant(u))[0]; }
  void backward() {
    weight_.clear_gradient();
    tape.backward(y, {.cotangent = u});
  }

  Tape tape;
  Var x, y;
  Tensor u;

 private:
  // A few steps, and parts of a few steps in them. The same generator draws the same ones again.
  Var run(Rng rng, std::span<const Var> inputs, int depth) {
    std::vector<Var> values(inputs.begin(), inputs.end());
    for (int i = 0; i < 5; ++i) {
      const auto any = [&] { return values[static_cast<std::size_t>(rng.below(static_cast<Index>(values.size())))]; };
      const Var a = values.back(), b = any();
      const auto step = static_cast<std::size_t>(rng.below(kSteps.size()));
      if (depth > 0 && rng.below(3) == 0) {
        const Rng inner = rng.split(std::to_string(i));
        const auto part = [this, inner, depth](std::span<const Var> xs) { return run(inner, xs, depth - 1); };
        const std::array ab{a, b};
        values.push_back(recomputed_ ? recompute(part, ab) : part(ab));
      } else {
        values.push_back(kSteps[step](a, b, a.tape().parameter(weight_)));
      }
    }
    return values.back();
  }

  Parameter& weight_;
  bool recomputed_;
};

Parameter make_weight() { return {"weight", tensor({0.5, -1.5, 2.0}, DType::float64)}; }

Tensor identity() {
  Tensor one = zeros({kSize, kSize}, DType::float64);
  for (Index i = 0; i < kSize; ++i) one.mutable_data<double>()[row_major_offset(i, kSize, i)] = 1.0;
  return one.reshape({kSize, 2, 3});
}

// Rounding of some dozen float64 operations.
Close near(const Tensor& expected) { return {expected.values(), 1e-10}; }

}  // namespace

TEST_CASE("random programs: all sweeps agree") {
  Parameter weight = make_weight();
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    CAPTURE(seed);
    Program program(seed, weight, false);
    const Tensor gradient = program.gradient();
    program.backward();
    CHECK(program.x.gradient().values() == gradient.values());
    CHECK(program.recorded_gradient().value() == near(gradient));
    const Tensor matrix = jacobian(program.y, program.x);
    CHECK(program.tape.gradients(program.y, {&program.x, 1}, identity())[0] == near(matrix));
    const Tensor columns = program.tape.push_forward(program.y, program.x, identity()).reshape({kSize, kSize});
    for (Index i = 0; i < kSize; ++i) {
      for (Index j = 0; j < kSize; ++j) CHECK(columns.at({j, i}) == doctest::Approx(matrix.at({i, j})).epsilon(1e-10));
    }
  }
}

TEST_CASE("random programs: recomputed parts change no bit of any derivative") {
  Parameter weight = make_weight();
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    CAPTURE(seed);
    Program whole(seed, weight, false), parts(seed, weight, true);
    whole.backward();
    const auto of_weight = [&] { return weight.has_gradient() ? weight.gradient().values() : std::vector<double>(); };
    const std::vector<double> expected = of_weight();
    parts.backward();
    CHECK(of_weight() == expected);
    CHECK(parts.gradient().values() == whole.gradient().values());
    CHECK(jacobian(parts.y, parts.x).values() == jacobian(whole.y, whole.x).values());
    const Var slope = whole.recorded_gradient(), slope_again = parts.recorded_gradient();
    CHECK(jacobian(slope_again, parts.x).values() == jacobian(slope, whole.x).values());
    whole.tape.backward(slope, {.cotangent = whole.u});
    parts.tape.backward(slope_again, {.cotangent = parts.u});
    CHECK(parts.x.gradient().values() == whole.x.gradient().values());
  }
}
