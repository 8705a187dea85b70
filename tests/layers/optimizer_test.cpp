#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <jnorm/core/error.hpp>
#include <jnorm/layers/optimizer.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Parameter parameter(std::initializer_list<double> values) { return {"p", tensor(values, DType::float64)}; }

// One step with this gradient for every element.
void step(Optimizer& optimizer, Parameter& p, double gradient) {
  p.add_gradient(full(p.shape(), gradient, p.value().dtype()));
  optimizer.step();
}

double saved(const Optimizer& optimizer, const std::string& name) {
  for (const auto& [saved_name, tensor] : optimizer.state()) {
    if (saved_name == name) return tensor.item();
  }
  FAIL("no " << name);
  return kNaN;
}

}  // namespace

TEST_CASE("adam: the first step is of the size of the learning rate") {
  Parameter p = parameter({0});
  Parameter* const list[] = {&p};
  Adam adam(list, {.learning_rate = 0.1});
  step(adam, p, 1.0);
  CHECK(p.value() == close({-0.099999999}, 1e-12));
}

TEST_CASE("adam: eps stands beside the corrected root, not the raw one") {
  Parameter p = parameter({0});
  Parameter* const list[] = {&p};
  Adam adam(list, {.learning_rate = 1e-3, .eps = 1e-8});
  step(adam, p, 1e-8);
  CHECK(p.value().item() == doctest::Approx(-5.0e-4).epsilon(1e-10));
}

TEST_CASE("adam: the stored moments stay uncorrected") {
  Parameter p = parameter({0});
  Parameter* const list[] = {&p};
  Adam adam(list, {.learning_rate = 0.1});
  step(adam, p, 1.0);
  step(adam, p, 1.0);
  CHECK(saved(adam, "p.first_moment") == doctest::Approx(0.19).epsilon(1e-14));
  CHECK(p.value() == close({-0.2}, 1e-8));  // both corrected ratios are 1, up to eps
}

TEST_CASE("adam: an L2 penalty is part of the gradient") {
  Parameter p = parameter({1});
  Parameter* const list[] = {&p};
  Adam adam(list, {.learning_rate = 0.1, .weight_decay = 0.5});
  step(adam, p, 0.0);
  CHECK(p.value() == close({0.9}, 1e-8));  // a first step has the gradient's sign, whatever its size
}

TEST_CASE("adam: a parameter whose first gradient comes late is corrected as in a first step") {
  Parameter early = parameter({0}), late("late", tensor({0}, DType::float64));
  Parameter* const list[] = {&early, &late};
  Adam adam(list, {.learning_rate = 0.1});
  for (int i = 0; i < 10; ++i) step(adam, early, 1.0);
  step(adam, late, 1.0);
  CHECK(late.value() == close({-0.1}, 1e-8));
}

TEST_CASE("adamw: the decay is decoupled, and spares gains and biases") {
  Parameter matrix("matrix", full({1, 1}, 2.0, DType::float64)), gain("gain", tensor({2}, DType::float64));
  Parameter* const list[] = {&matrix, &gain};
  AdamW adamw(list, {.learning_rate = 0.1, .weight_decay = 0.5});
  gain.add_gradient(zeros({1}, DType::float64));
  step(adamw, matrix, 0.0);
  CHECK(matrix.value() == close({1.9}, 1e-12));  // 2 - 0.1 0.5 2
  CHECK(gain.value() == close({2}, 0.0));
}

TEST_CASE("adamw: gains and biases decay if asked") {
  Parameter gain = parameter({2});
  Parameter* const list[] = {&gain};
  AdamW adamw(list, {.learning_rate = 0.1, .weight_decay = 0.5, .decay_vectors = true});
  step(adamw, gain, 0.0);
  CHECK(gain.value() == close({1.9}, 1e-12));
}

TEST_CASE("sgd: the parameter moves against the gradient") {
  Parameter p = parameter({1, 2});
  Parameter* const list[] = {&p};
  Sgd sgd(list, {.learning_rate = 0.1, .weight_decay = 0.5});
  step(sgd, p, 1.0);
  CHECK(p.value() == close({0.85, 1.8}, 1e-14));  // 1 - 0.1 (1 + 0.5), 2 - 0.1 (1 + 1)
}

TEST_CASE("sgd: momentum adds up velocity") {
  Parameter p = parameter({0});
  Parameter* const list[] = {&p};
  Sgd sgd(list, {.learning_rate = 0.1, .momentum = 0.9});
  step(sgd, p, 1.0);
  step(sgd, p, 1.0);
  CHECK(p.value() == close({-0.29}, 1e-14));  // 0.1 (1) + 0.1 (0.9 + 1)
}

TEST_CASE("optimizer: a step consumes the gradients") {
  Parameter p = parameter({0});
  Parameter* const list[] = {&p};
  Sgd sgd(list);
  step(sgd, p, 1.0);
  CHECK_FALSE(p.has_gradient());
}

TEST_CASE("optimizer: a parameter without a gradient stays as it is") {
  Parameter p = parameter({7});
  Parameter* const list[] = {&p};
  AdamW adamw(list, {.weight_decay = 0.5, .decay_vectors = true});
  adamw.step();
  CHECK(p.value().item() == 7.0);
  CHECK(saved(adamw, "p.steps") == 0.0);
}

TEST_CASE("optimizer: a parameter that is listed twice is stepped and saved once") {
  Parameter p = parameter({0});
  Parameter* const list[] = {&p, &p};
  Sgd sgd(list, {.learning_rate = 0.1, .momentum = 0.9});
  step(sgd, p, 1.0);
  CHECK(p.value() == close({-0.1}, 1e-14));
  CHECK(sgd.state().size() == 2);  // its velocity and its steps
}

TEST_CASE("optimizer: the learning rate can change between steps") {
  Parameter p = parameter({0});
  Parameter* const list[] = {&p};
  Sgd sgd(list, {.learning_rate = 0.1});
  sgd.set_learning_rate(0.5);
  step(sgd, p, 1.0);
  CHECK(p.value().item() == -0.5);
}

TEST_CASE("optimizer: one that goes on from a saved state makes the same bits") {
  const auto run = [](bool interrupted) {
    Parameter p = parameter({1, 2});
    Parameter* const list[] = {&p};
    const AdamWOptions options{.learning_rate = 0.01, .weight_decay = 0.1, .decay_vectors = true};
    AdamW first(list, options);
    for (int i = 1; i <= 3; ++i) step(first, p, 1.0 / i);
    AdamW second(list, options);
    second.load_state(first.state());
    for (int i = 4; i <= 6; ++i) step(interrupted ? second : first, p, 1.0 / i);
    return p.value().values();
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("optimizer: a count of steps that a narrow float would round survives saving") {
  Parameter p = parameter({0});
  Parameter* const list[] = {&p};
  Adam adam(list);
  NamedTensors state = adam.state();
  const std::int32_t steps = 16777217;  // float32 has no such number
  state[2] = {"p.steps", indices({}, {&steps, 1})};
  adam.load_state(state);
  CHECK(saved(adam, "p.steps") == 16777217.0);
}

// In bfloat16 the second one would stop growing where a thousandth of 1 - v is less than half a unit of its last place.
TEST_CASE("optimizer: the moments of narrow parameters are float32, in its state too") {
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    Parameter p("p", tensor({0}, dtype));
    Parameter* const list[] = {&p};
    Adam adam(list, {.learning_rate = 1e-3});
    for (int i = 0; i < 1000; ++i) step(adam, p, 1.0);
    CHECK(adam.state()[1].second.dtype() == DType::float32);
    CHECK(saved(adam, "p.second_moment") == doctest::Approx(0.632305).epsilon(1e-5));  // 1 - 0.999^1000
  }
}

TEST_CASE("optimizer: a state of another optimizer is refused with the names that differ") {
  Parameter p = parameter({0});
  Parameter* const list[] = {&p};
  Adam adam(list);
  CHECK_THROWS_WITH_AS(adam.load_state(Sgd(list, {.momentum = 0.9}).state()),
                       "optimizer: the names or shapes differ; 1 missing: p.second_moment", Error);
}

TEST_CASE("optimizer: learning rates that are NaN or negative are refused") {
  Parameter p = parameter({0});
  Parameter* const list[] = {&p};
  CHECK_THROWS_WITH_AS(Sgd(list, {.learning_rate = kNaN}), doctest::Contains("must be finite and not negative"), Error);
  CHECK_THROWS_AS(AdamW(list, {.learning_rate = -1e-3}), Error);
  Adam adam(list);
  CHECK_THROWS_WITH_AS(adam.set_learning_rate(-0.1), doctest::Contains("but is -0.1"), Error);
}

TEST_CASE("optimizer: other options out of range are refused by name") {
  Parameter p = parameter({0});
  Parameter* const list[] = {&p};
  CHECK_THROWS_WITH_AS(Adam(list, {.beta1 = 1.0}), "adam: beta1 must be in [0, 1), but is 1", Error);
  CHECK_THROWS_WITH_AS(AdamW(list, {.eps = 0.0}), "adamw: eps must be positive and finite, but is 0", Error);
  CHECK_THROWS_WITH_AS(Sgd(list, {.momentum = kNaN}), doctest::Contains("sgd: momentum must be in [0, 1)"), Error);
}

TEST_CASE("optimizer: a parameter that was converted meanwhile is named") {
  Parameter p("weight", tensor({0}));
  Parameter* const list[] = {&p};
  Adam adam(list);
  p.set_value(p.value().to(DType::float64));
  p.add_gradient(ones({1}, DType::float64));
  CHECK_THROWS_WITH_AS(adam.step(), doctest::Contains("weight is float64, but was float32"), Error);
}

TEST_CASE("optimizer: a group has a learning rate of its own, with every optimizer") {
  const auto change_of = [](auto make_optimizer) {
    Parameter fast("fast", tensor({0}, DType::float64)), slow("slow", tensor({0}, DType::float64));
    Parameter* const list[] = {&fast, &slow};
    auto optimizer = make_optimizer(list, std::vector<ParameterGroup>{{.pattern = "sl*", .learning_rate_scale = 0.1}});
    slow.add_gradient(ones({1}, DType::float64));
    step(optimizer, fast, 1.0);
    return std::pair(fast.value().item(), slow.value().item());
  };
  const auto sgd =
      change_of([](auto& list, auto groups) { return Sgd(list, {.learning_rate = 0.5, .groups = groups}); });
  CHECK(sgd == std::pair(-0.5, -0.05));
  const auto adam =
      change_of([](auto& list, auto groups) { return Adam(list, {.learning_rate = 0.5, .groups = groups}); });
  CHECK(adam.second == doctest::Approx(-0.05).epsilon(1e-7));  // eps beside a root of 1
  const auto adamw =
      change_of([](auto& list, auto groups) { return AdamW(list, {.learning_rate = 0.5, .groups = groups}); });
  CHECK(adamw.second == doctest::Approx(-0.05).epsilon(1e-7));
}

TEST_CASE("optimizer: a group has a weight decay of its own, gains and biases included") {
  const std::vector<ParameterGroup> groups{{.pattern = "p", .weight_decay = 0.5}};
  Parameter p = parameter({2});
  Parameter* const list[] = {&p};
  Sgd sgd(list, {.learning_rate = 0.1, .weight_decay = 3.0, .groups = groups});
  step(sgd, p, 0.0);
  CHECK(p.value() == close({1.9}, 1e-14));  // 2 - 0.1 0.5 2
  AdamW adamw(list, {.learning_rate = 0.1, .weight_decay = 3.0, .groups = groups});
  step(adamw, p, 0.0);
  CHECK(p.value() == close({1.805}, 1e-14));  // 1.9 - 0.1 0.5 1.9
  Adam adam(list, {.learning_rate = 0.1, .weight_decay = 3.0, .groups = {{.pattern = "p", .weight_decay = 0.0}}});
  step(adam, p, 0.0);
  CHECK(p.value() == close({1.805}, 1e-14));
}

TEST_CASE("optimizer: of several groups the last one's values hold, each value for itself") {
  Parameter p = parameter({2});
  Parameter* const list[] = {&p};
  Sgd sgd(list, {.learning_rate = 0.1,
                 .groups = {{.pattern = "*", .learning_rate_scale = 7.0, .weight_decay = 0.5},
                            {.pattern = "p", .learning_rate_scale = 2.0}}});
  step(sgd, p, 0.0);
  CHECK(p.value() == close({1.8}, 1e-14));  // 2 - 2 0.1 0.5 2
}

TEST_CASE("optimizer: a group that no parameter fits, and rates that can't be, are refused") {
  Parameter p("weight", tensor({0}));
  Parameter* const list[] = {&p};
  CHECK_THROWS_WITH_AS(Sgd(list, {.groups = {{.pattern = "wieght"}}}),
                       "optimizer: no parameter fits \"wieght\"; did you mean weight?", Error);
  CHECK_THROWS_WITH_AS(Adam(list, {.groups = {{.pattern = "*", .learning_rate_scale = -1.0}}}),
                       "optimizer: the group \"*\": learning_rate_scale must be finite and not negative, but is -1",
                       Error);
  CHECK_THROWS_AS(AdamW(list, {.groups = {{.pattern = "*", .weight_decay = kNaN}}}), Error);
}
