#include <cmath>

#include <doctest/doctest.h>

#include <jnorm/autograd/custom.hpp>
#include <jnorm/autograd/gradcheck.hpp>
#include <jnorm/core/random.hpp>

using namespace jnorm;

namespace {

auto right = [](auto& x, auto& y, auto& dy, auto& dx) { dx = dy * (y + (1 - y) / (1 + xt::exp(-x))); };
auto forward = [](auto& x, auto& y) { y = x / (1 + xt::exp(-x)); };

}  // namespace

TEST_CASE("gradcheck: a right operation of one's own passes") {
  Rng rng(1);
  CHECK(check_gradients(custom("swish", forward, right), {randn({3, 4}, rng)}).passed());
}

TEST_CASE("gradcheck: a dropped term fails, and the report says where") {
  Rng rng(1);
  const Custom broken =
      custom("swish", forward, [](auto& x, auto& y, auto& dy, auto& dx) { dx = dy * (y + 1 / (1 + xt::exp(-x))); });
  const GradientReport report = check_gradients(broken, {randn({3, 4}, rng)});
  CHECK_FALSE(report.passed());
  CHECK(to_string(report).find("FAILS at order 1, central differences") != std::string::npos);
  CHECK(to_string(report).find("input 0 (x0) at [") != std::string::npos);
}

TEST_CASE("gradcheck: a wrong sign fails") {
  Rng rng(1);
  const Custom broken = custom(
      "swish", forward, [](auto& x, auto& y, auto& dy, auto& dx) { dx = -dy * (y + (1 - y) / (1 + xt::exp(-x))); });
  CHECK_FALSE(check_gradients(broken, {randn({2}, rng)}).passed());
}

TEST_CASE("gradcheck: a gradient that is NaN fails") {
  Rng rng(1);
  const Custom broken =
      custom("swish", forward, [](auto& x, auto&, auto& dy, auto& dx) { dx = dy * (x - x) / (x - x); });
  CHECK_FALSE(check_gradients(broken, {randn({2}, rng)}).passed());
}

TEST_CASE("gradcheck: an operation of two inputs is checked in both") {
  Rng rng(1);
  const Custom product = custom(
      "product", [](auto& a, auto& b, auto& y) { y = a * b; },
      [](auto& a, auto& b, auto&, auto& dy, auto& da, auto& db) {
        da = dy * b;
        db = dy * a;
      });
  const auto call = [&](std::span<const Var> x) { return product(x[0], x[1]); };
  CHECK(check_gradients(call, {randn({3}, rng), randn({3}, rng)}).passed());
}

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

using Vars = std::span<const Var>;

// x^3, through float32.
Custom narrow_cube() {
  return custom(
      "narrow cube", [](auto& x, auto& y) { y = xt::cast<double>(xt::cast<float>(x * x * x)); },
      [](auto& x, auto&, auto& dy, auto& dx) { dx = 3 * x * x * dy; });
}

}  // namespace

TEST_CASE("gradcheck: a failure shows the differences over the steps, the V") {
  Rng rng(1);
  const Custom broken =
      custom("swish", forward, [](auto& x, auto& y, auto& dy, auto& dx) { dx = dy * (y + 1 / (1 + xt::exp(-x))); });
  const GradientReport report = check_gradients(broken, {randn({3, 4}, rng)});
  REQUIRE(report.witnesses[0].sweep.has_value());
  CHECK(report.witnesses[0].sweep->steps.size() >= 7);
  CHECK(contains(to_string(report), "<- best"));
}

TEST_CASE("gradcheck: a right derivative of a function that rounds to float32 isn't called wrong, but not checkable") {
  const GradientReport report = check_gradients(narrow_cube(), {ones({1})});
  CHECK_FALSE(report.passed());
  CHECK(contains(report.witnesses[0].worst, "it can't be checked here: the differences don't settle"));
  REQUIRE(report.witnesses[0].verdict.has_value());
  CHECK(report.witnesses[0].verdict->fault == GradientFault::float32_noise);
  CHECK(contains(to_string(report), "differences need float64"));
}

TEST_CASE("gradcheck: a function too rough for differences isn't passed") {
  const Custom rough = custom(
      "rough", [](auto& x, auto& y) { y = xt::sin(1e9 * x); },
      [](auto& x, auto&, auto& dy, auto& dx) { dx = 1e9 * xt::cos(1e9 * x) * dy; });
  const GradientReport report = check_gradients(rough, {ones({3})});
  CHECK_FALSE(report.passed());
  CHECK(contains(to_string(report), "it can't be checked here"));
}

TEST_CASE("gradcheck: a function that gives float32 is refused") {
  const auto narrow = [](Vars x) { return x[0].tape().constant(x[0].value().to(DType::float32)); };
  CHECK_THROWS_WITH_AS(check_gradients(narrow, {ones({1})}), doctest::Contains("but the function gives float32"),
                       Error);
}

TEST_CASE("gradcheck: inputs without a derivative, undefined or infinite are refused") {
  const auto same = [](Vars x) { return x[0]; };
  CHECK_THROWS_WITH_AS(check_gradients(same, {indices({1}, std::vector<std::int32_t>{1})}),
                       doctest::Contains("input 0 is int32, which has no derivative"), Error);
  CHECK_THROWS_WITH_AS(check_gradients(same, {Tensor()}), doctest::Contains("input 0 is undefined"), Error);
  CHECK_THROWS_WITH_AS(check_gradients(same, {tensor({1, INFINITY})}), doctest::Contains("input 0 is inf at [1]"),
                       Error);
}

TEST_CASE("gradcheck: a function that draws other random numbers each time is refused") {
  Rng rng(1);
  const auto noisy = [&](Vars x) { return x[0] + rng.normal(); };
  CHECK_THROWS_WITH_AS(check_gradients(noisy, {ones({2})}), doctest::Contains("another output when it is called again"),
                       Error);
}

TEST_CASE("gradcheck: scalars, empty tensors, an input itself and a constant are functions as well") {
  const auto cube = [](Vars x) { return square(x[0]) * x[0]; };
  CHECK(check_gradients(cube, {full({}, 2.0)}, {.order = 3}).passed());
  CHECK(check_gradients(cube, {zeros({0, 3})}, {.order = 3}).passed());
  CHECK(check_gradients([](Vars x) { return x[0]; }, {ones({2}), ones({3})}, {.order = 3}).passed());
  CHECK(
      check_gradients([](Vars x) { return x[0].tape().constant(ones({2}, DType::float64)); }, {ones({2})}, {.order = 3})
          .passed());
}

TEST_CASE("gradcheck: a plain sum over a norm's output passes with any formula, so it is warned of") {
  Rng rng(1);
  const Tensor x = randn({3, 5}, rng);
  const auto warning_of = [&](const DifferentiableFunction& loss) {
    const GradientReport report = check_gradients(loss, {x});
    CHECK(report.passed());
    return report.warnings.empty() ? std::string() : report.warnings[0];
  };
  CHECK(contains(warning_of([](Vars v) { return sum(layer_norm(v[0])); }), "the gradient of input 0 vanishes here"));
  CHECK(contains(warning_of([](Vars v) { return sum(layer_norm(v[0])); }),
                 "the output of layer_norm (at gradcheck_test"));
  CHECK(contains(warning_of([](Vars v) { return mean(softmax(v[0])); }), "softmax"));
  CHECK(contains(warning_of([](Vars v) { return 2.0 * mean(reshape(layer_norm(v[0]), {15})) + 1.0; }), "layer_norm"));
  CHECK(contains(warning_of([](Vars v) { return sum(batch_norm(v[0]).y); }), "batch_norm"));
  CHECK(contains(warning_of([](Vars v) { return mean(square(rms_norm(v[0]))); }), "rms_norm"));
  CHECK(warning_of([](Vars v) { return layer_norm(v[0]); }).empty());
  CHECK(warning_of([](Vars v) { return sum(rms_norm(v[0])); }).empty());
  CHECK(warning_of([](Vars v) { return sum(exp(v[0])); }).empty());
}

TEST_CASE("gradcheck: an input on a kink is warned of, and any slope between both sides passes") {
  const GradientReport report = check_gradients([](Vars x) { return relu(x[0]); }, {tensor({-1, 0, 2})});
  CHECK(report.passed());
  REQUIRE(report.warnings.size() == 1);
  CHECK(contains(report.warnings[0], "input 0 (x) sits on a kink at [1]"));
  CHECK(contains(to_string(report), "warning: "));

  const Custom outside = custom(
      "relu", [](auto& x, auto& y) { y = xt::maximum(x, 0.0); },
      [](auto& x, auto&, auto& dy, auto& dx) {
        dx = dy * (xt::cast<double>(x > 0.0) + 2.0 * xt::cast<double>(xt::equal(x, 0.0)));
      });
  CHECK_FALSE(check_gradients(outside, {tensor({-1, 0, 2}, DType::float64)}).passed());
}

TEST_CASE("gradcheck: an element near a kink is judged by smaller steps") {
  CHECK(check_gradients([](Vars x) { return abs(x[0]); }, {tensor({-1, 3e-4, 2}, DType::float64)}).passed());
}

TEST_CASE("gradcheck: the gradient is of the value that the forward saw") {
  const auto cube = [](Vars x) { return square(x[0]) * x[0]; };
  Tensor x = ones({1}, DType::float64);
  Tape tape;
  const Var recorded = tape.variable(x);
  const Var y = cube({&recorded, 1});
  CHECK(tape.gradients(y, {&recorded, 1})[0].item() == 3.0);
  x.write_in_place<double>()[0] = 2.0;
  CHECK_THROWS_WITH_AS(tape.gradients(y, {&recorded, 1}), doctest::Contains("changed in place"), Error);
  Tape again;
  const Var changed = again.variable(x);
  CHECK(again.gradients(cube({&changed, 1}), {&changed, 1})[0].item() == 12.0);
}

TEST_CASE("gradcheck: float32 inputs are checked in float64") {
  Rng rng(1);
  const auto cube = [](std::span<const Var> x) { return square(x[0]) * x[0]; };
  CHECK(check_gradients(cube, {ones({1}, DType::float32)}).worst_error() < 1e-9);
}

TEST_CASE("gradcheck: a NaN is the worst error, wherever it stands") {
  const GradientWitness nan{.name = "", .error = std::nan(""), .tolerance = 1.0, .worst = ""};
  const GradientWitness small{.name = "", .error = 1e-9, .tolerance = 1.0, .worst = ""};
  CHECK(nan.worse_than(small));
  CHECK_FALSE(small.worse_than(nan));
  CHECK(std::isnan(GradientReport{{small, nan, small}}.worst_error()));
  CHECK(GradientReport{{small, small}}.worst_error() == 1e-9);
}

TEST_CASE("gradcheck: shared sub-expressions are visited once, not once a path") {
  const auto doublings = [](std::span<const Var> x) {
    Var a = x[0];
    for (int i = 0; i < 100; ++i) a = a + a;
    return a;
  };
  CHECK(check_gradients(doublings, {ones({1})}, {.order = 3}).passed());
}

TEST_CASE("gradcheck: an input that was transposed is checked like its copy") {
  Rng rng(1);
  const Tensor x = randn({3, 5}, rng, DType::float64);
  const auto sigmoid = [](std::span<const Var> xs) { return reciprocal(exp(-transpose(xs[0])) + 1.0); };
  CHECK(check_gradients(sigmoid, {x}).passed());
  constexpr int swapped[] = {1, 0};
  CHECK(check_gradients(sigmoid, {permute(x, swapped)}).passed());
}
