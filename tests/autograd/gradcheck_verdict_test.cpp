// Right operations with backwards that are spoiled in the usual ways: each is recognized for what it is.

#include <doctest/doctest.h>

#include <limits>

#include <jnorm/autograd/custom.hpp>
#include <jnorm/autograd/gradcheck.hpp>
#include <jnorm/core/random.hpp>

#include "autograd/spoiled_operation.hpp"

using namespace jnorm;

namespace {

using Vars = std::span<const Var>;
using Tensors = std::vector<Tensor>;

Tensor normal(const Shape& shape, std::uint64_t seed) {
  Rng rng(seed);
  return randn(shape, rng, DType::float64);
}

struct Right {
  std::string name;
  DifferentiableFunction function;
  Tensors inputs;
};

const std::vector<Right>& right_operations() {
  static const Tensor tokens = indices({3}, std::vector<std::int32_t>{1, 0, 3});
  static const std::vector<Right> list{
      {"exp", [](Vars x) { return exp(x[0]); }, {normal({3, 4}, 1)}},
      {"gelu", [](Vars x) { return gelu(x[0]); }, {normal({3, 4}, 2)}},
      {"multiply", [](Vars x) { return x[0] * x[1]; }, {normal({3, 4}, 3), normal({3, 4}, 4)}},
      {"mean", [](Vars x) { return mean(x[0], {1}); }, {normal({3, 4, 5}, 5)}},
      {"matmul", [](Vars x) { return matmul(x[0], x[1]); }, {normal({4, 4}, 6), normal({4, 4}, 7)}},
      {"linear",
       [](Vars x) { return linear(x[0], x[1], x[2]); },
       {normal({5, 3}, 8), normal({4, 3}, 9), normal({4}, 10)}},
      {"softmax", [](Vars x) { return softmax(x[0]); }, {normal({3, 5}, 11)}},
      {"layer_norm",
       [](Vars x) { return layer_norm(x[0], x[1], x[2]); },
       {normal({4, 6}, 12), normal({6}, 13), normal({6}, 14)}},
      {"rms_norm", [](Vars x) { return rms_norm(x[0], x[1]); }, {normal({4, 6}, 15), normal({6}, 16)}},
      {"cross_entropy", [](Vars x) { return cross_entropy(x[0], tokens); }, {normal({3, 4}, 17)}},
      {"causal_attention",
       [](Vars x) { return causal_attention(x[0], x[1], x[2], 2); },
       {normal({2, 3, 4}, 18), normal({2, 3, 4}, 19), normal({2, 3, 4}, 20)}},
  };
  return list;
}

const Right& right(const std::string& name) {
  for (const Right& operation : right_operations()) {
    if (operation.name == name) return operation;
  }
  FAIL("no such operation: " << name);
  return right_operations().front();
}

// The witness by differences of an operation with a spoiled backward.
GradientWitness differences_of(const Right& operation, const Spoil& spoil) {
  const DifferentiableFunction broken = spoiled(operation.function, spoil);
  return check_gradients(broken, operation.inputs, {.seed = 3}).witnesses[0];
}

void check_recognized(const Right& operation, const Spoil& spoil, GradientFault fault, const std::string& words) {
  CAPTURE(operation.name);
  const GradientWitness witness = differences_of(operation, spoil);
  CHECK_FALSE(witness.holds());
  REQUIRE_MESSAGE(witness.verdict.has_value(), witness.worst);
  CHECK_MESSAGE(witness.verdict->fault == fault, witness.verdict->sentence);
  CHECK_MESSAGE(witness.verdict->sentence.find(words) != std::string::npos, witness.verdict->sentence);
}

Spoil first_gradient(std::function<Tensor(const RightBackward&)> wrong) {
  return [wrong](const RightBackward& back) {
    Tensors gradients = back.gradients;
    gradients[0] = wrong(back);
    return gradients;
  };
}

Spoil each_gradient(std::function<Tensor(const Tensor&)> wrong) {
  return [wrong](const RightBackward& back) {
    Tensors gradients;
    for (const Tensor& gradient : back.gradients) gradients.push_back(wrong(gradient));
    return gradients;
  };
}

// Means over the axes, repeated to x's shape.
Tensor averaged(const Tensor& x, std::uint32_t axes, const Shape& kept) {
  const double count = static_cast<double>(x.size()) / static_cast<double>(kept.size());
  return affine(broadcast_to(reshape(sum_axes(x, axes), kept), x.shape()), 1.0 / count, 0.0);
}
Tensor row_mean(const Tensor& x) { return averaged(x, 1u << (x.rank() - 1), x.shape().with_axis(-1, 1)); }
Tensor row_mean_square(const Tensor& x) { return row_mean(square(x)); }

// Row 0 of dy, where the sum over rows belongs.
Tensor first_row(const Tensor& dy) {
  const std::vector<double> values = dy.values();
  return tensor({dy.dim(-1)}, std::span(values).first(static_cast<std::size_t>(dy.dim(-1))), DType::float64);
}

}  // namespace

TEST_CASE("gradcheck verdict: a constant factor is named, for every operation") {
  struct Factor {
    double value;
    const char* words;
  };
  for (const Right& operation : right_operations()) {
    for (const auto& [factor, words] :
         {Factor{-1.0, "off by a factor of -1: the sign is wrong"}, Factor{2.0, "of 2: counted twice"},
          Factor{0.5, "of 0.5: half"}, Factor{1.7, "of 1.7"}}) {
      check_recognized(operation, each_gradient([f = factor](const Tensor& g) { return affine(g, f, 0.0); }),
                       GradientFault::factor, words);
    }
  }
}

TEST_CASE("gradcheck verdict: a factor that is a size is called by it") {
  const auto times = [](double factor) {
    return first_gradient([factor](const RightBackward& back) { return affine(back.gradients[0], factor, 0.0); });
  };
  check_recognized(right("layer_norm"), times(6.0), GradientFault::factor, "of 6, the size of axis 1");
  check_recognized(right("layer_norm"), times(1.0 / 6.0), GradientFault::factor, "1 over the size of axis 1");
  check_recognized(right("cross_entropy"), times(3.0), GradientFault::factor, "of 3, the size of axis 0 of it");
}

TEST_CASE("gradcheck verdict: a gradient of zeros, for every operation") {
  const Spoil zero = each_gradient([](const Tensor& g) { return zeros(g.shape(), DType::float64); });
  for (const Right& operation : right_operations())
    check_recognized(operation, zero, GradientFault::zero, "is 0 everywhere");
}

TEST_CASE("gradcheck verdict: a gradient that isn't finite, for every operation") {
  const Spoil nan =
      each_gradient([](const Tensor& g) { return affine(g, std::numeric_limits<double>::quiet_NaN(), 0.0); });
  for (const Right& operation : right_operations()) check_recognized(operation, nan, GradientFault::non_finite, "NaN");
}

TEST_CASE("gradcheck verdict: a backward that doesn't read its cotangent, for every operation") {
  const Spoil ignores = [](const RightBackward& back) { return back.pull_back(normal(back.dy.shape(), 99)); };
  for (const Right& operation : right_operations()) {
    check_recognized(operation, ignores, GradientFault::cotangent_ignored, "doesn't multiply by dy");
  }
}

TEST_CASE("gradcheck verdict: a backward that rounds to float32, for every operation") {
  const Spoil rounds = each_gradient([](const Tensor& g) { return g.to(DType::float32).to(DType::float64); });
  for (const Right& operation : right_operations()) {
    check_recognized(operation, rounds, GradientFault::float32_noise, "right to 7 digits");
  }
}

TEST_CASE("gradcheck verdict: gradients that are swapped between inputs of one shape") {
  const Spoil swap = [](const RightBackward& back) {
    Tensors gradients = back.gradients;
    std::swap(gradients[0], gradients[1]);
    return gradients;
  };
  for (const char* name : {"multiply", "matmul", "causal_attention"}) {
    check_recognized(right(name), swap, GradientFault::swapped, "it got the gradient of input");
  }
}

TEST_CASE("gradcheck verdict: a transposed gradient, and J where J^T belongs") {
  const Spoil transposed = first_gradient([](const RightBackward& back) {
    constexpr int swapped[] = {1, 0};
    return permute(back.gradients[0], swapped);
  });
  check_recognized(right("matmul"), transposed, GradientFault::transposed, "is the transpose of the right one");
  const Spoil forgotten = first_gradient([](const RightBackward& back) { return matmul(back.dy, back.inputs[1]); });
  check_recognized(right("matmul"), forgotten, GradientFault::transposed, "J dy instead of J^T dy");
}

TEST_CASE("gradcheck verdict: a bias whose gradient isn't summed over the rows") {
  const Spoil slice = [](const RightBackward& back) {
    Tensors gradients = back.gradients;
    gradients.back() = first_row(back.dy);
    return gradients;
  };
  check_recognized(right("linear"), slice, GradientFault::missing_sum, "first slice along axis 0");
  check_recognized(right("layer_norm"), slice, GradientFault::missing_sum, "the sum over it is missing");
}

TEST_CASE("gradcheck verdict: a gradient that is averaged or summed over an axis") {
  const auto over_rows = [](double factor) {
    return first_gradient([factor](const RightBackward& back) {
      const Tensor& g = back.gradients[0];
      return affine(averaged(g, 1u, g.shape().with_axis(0, 1)), factor, 0.0);
    });
  };
  for (const char* name : {"exp", "gelu", "multiply", "softmax", "layer_norm", "causal_attention"}) {
    check_recognized(right(name), over_rows(1.0), GradientFault::reduced_too_much,
                     "is the mean of the right one over axis 0");
    const double rows = static_cast<double>(right(name).inputs[0].dim(0));
    check_recognized(right(name), over_rows(rows), GradientFault::reduced_too_much,
                     "is the sum of the right one over axis 0");
  }
}

TEST_CASE("gradcheck verdict: a norm without gamma in its backward, or with gamma outside of the means") {
  const Spoil left_out =
      first_gradient([](const RightBackward& back) { return back.pull_back(divide(back.dy, back.inputs[1]))[0]; });
  const Spoil outside = first_gradient([](const RightBackward& back) {
    return multiply(back.pull_back(divide(back.dy, back.inputs[1]))[0], back.inputs[1]);
  });
  for (const char* name : {"layer_norm", "rms_norm"}) {
    check_recognized(right(name), left_out, GradientFault::operand_left_out,
                     "the right one for dy where dy * input 1 belongs");
    check_recognized(right(name), outside, GradientFault::operand_left_out, "before any mean is taken");
  }
  check_recognized(right("multiply"), first_gradient([](const RightBackward& back) { return back.dy; }),
                   GradientFault::operand_left_out, "dy * input 1");
}

TEST_CASE("gradcheck verdict: LayerNorm without mean(u), without x_hat mean(u x_hat)") {
  const auto u = [](const RightBackward& back) { return multiply(back.dy, back.inputs[1]); };
  const auto centred = [](const RightBackward& back) { return subtract(back.inputs[0], row_mean(back.inputs[0])); };
  const auto rstd = [=](const RightBackward& back) {
    return rsqrt(affine(row_mean_square(centred(back)), 1.0, kNormEps));
  };
  const Spoil no_mean = first_gradient(
      [=](const RightBackward& back) { return add(back.gradients[0], multiply(row_mean(u(back)), rstd(back))); });
  check_recognized(right("layer_norm"), no_mean, GradientFault::term_dropped,
                   "constant, as a norm's mean(u) is, over axis 1");
  const Spoil no_x_hat = first_gradient([=](const RightBackward& back) {
    const Tensor x_hat = multiply(centred(back), rstd(back));
    return add(back.gradients[0], multiply(multiply(x_hat, row_mean(multiply(u(back), x_hat))), rstd(back)));
  });
  check_recognized(right("layer_norm"), no_x_hat, GradientFault::term_dropped, "proportional to the normalized x");
}

TEST_CASE("gradcheck verdict: RMSNorm without its only mean, softmax without its sum") {
  const Spoil no_mean = first_gradient([](const RightBackward& back) {
    const Tensor r = rsqrt(affine(row_mean_square(back.inputs[0]), 1.0, kNormEps));
    return multiply(multiply(back.dy, back.inputs[1]), r);
  });
  check_recognized(right("rms_norm"), no_mean, GradientFault::term_dropped, "proportional to x over axis 1");
  const Spoil no_sum = first_gradient([](const RightBackward& back) { return multiply(back.y, back.dy); });
  check_recognized(right("softmax"), no_sum, GradientFault::term_dropped, "proportional to y, as softmax's");
}

TEST_CASE("gradcheck verdict: there is none where no simple fault explains the residual") {
  const Spoil noise = first_gradient(
      [](const RightBackward& back) { return add(back.gradients[0], normal(back.gradients[0].shape(), 99)); });
  for (const Right& operation : right_operations()) {
    CAPTURE(operation.name);
    const GradientWitness witness = differences_of(operation, noise);
    CHECK_FALSE(witness.holds());
    CHECK_FALSE(witness.verdict.has_value());
  }
}

TEST_CASE("gradcheck verdict: a residual of which a millionth part stays unexplained isn't explained") {
  const Spoil nearly = first_gradient([](const RightBackward& back) {
    return add(affine(back.gradients[0], 2.0, 0.0), affine(normal(back.gradients[0].shape(), 99), 1e-4, 0.0));
  });
  CHECK_FALSE(differences_of(right("exp"), nearly).verdict.has_value());
}

TEST_CASE("gradcheck verdict: with a right vjp, the jvp is to blame") {
  const Spoil none = [](const RightBackward& back) { return back.gradients; };
  const DifferentiableFunction broken = spoiled(right("exp").function, none, 2.0);
  const GradientReport report = check_gradients(broken, right("exp").inputs);
  CHECK(report.witnesses[0].holds());
  REQUIRE(report.witnesses[1].verdict.has_value());
  CHECK(report.witnesses[1].verdict->fault == GradientFault::wrong_jvp);
}
