#include <jnorm/layers/loss_scaler.hpp>

#include <limits>

#include <doctest/doctest.h>

#include <jnorm/core/error.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// One parameter, 0 at first, and plain gradient descent at rate 1.
struct Training {
  Parameter p{"p", tensor({0})};
  Parameter* list[1] = {&p};
  Sgd sgd{list, {.learning_rate = 1.0}};

  // A whole step with this scaled gradient; returns whether it was made.
  bool step(LossScaler& scaler, double scaled_gradient) {
    p.add_gradient(tensor({scaled_gradient}));
    scaler.unscale(list);
    const bool stepped = scaler.step(sgd);
    scaler.update();
    return stepped;
  }
};

}  // namespace

TEST_CASE("loss scaler: gradients are divided by the scale, once") {
  Training training;
  LossScaler scaler({.initial_scale = 8.0});
  training.p.add_gradient(tensor({24}));
  CHECK(scaler.unscale(training.list));
  CHECK(training.p.gradient().item() == 3.0);
  CHECK(scaler.step(training.sgd));
  CHECK(training.p.value().item() == -3.0);
}

TEST_CASE("loss scaler: a second unscale is refused and leaves the gradients as they are") {
  Training training;
  LossScaler scaler({.initial_scale = 8.0});
  training.p.add_gradient(tensor({24}));
  scaler.unscale(training.list);
  CHECK_THROWS_WITH_AS(scaler.unscale(training.list), "loss scaler: the gradients are unscaled already; call update()",
                       Error);
  CHECK(training.p.gradient().item() == 3.0);
  scaler.step(training.sgd);
  CHECK_THROWS_AS(scaler.unscale(training.list), Error);
}

TEST_CASE("loss scaler: a step before unscale, and a second one, are refused") {
  Training training;
  LossScaler scaler;
  try {
    scaler.step(training.sgd);
    FAIL("it was made");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::state);
    CHECK(std::string(error.what()) == "loss scaler: call unscale() before step()");
  }
  scaler.unscale(training.list);
  scaler.step(training.sgd);
  CHECK_THROWS_WITH_AS(scaler.step(training.sgd), "loss scaler: this step is made already; call update()", Error);
}

TEST_CASE("loss scaler: update is legal in every phase") {
  Training training;
  LossScaler scaler({.initial_scale = 8.0});
  scaler.update();
  CHECK(scaler.scale() == 8.0);
  training.p.add_gradient(tensor({kInfinity}));
  scaler.unscale(training.list);
  scaler.update();  // without a step
  CHECK(scaler.scale() == 4.0);
  scaler.unscale(training.list);  // ready again
  scaler.step(training.sgd);
  scaler.update();
}

TEST_CASE("loss scaler: an overflow skips the step, halves the scale and counts") {
  Training training;
  LossScaler scaler({.initial_scale = 8.0});
  for (const double bad : {kInfinity, -kInfinity, kNaN}) CHECK_FALSE(training.step(scaler, bad));
  CHECK(training.p.value().item() == 0.0);
  CHECK_FALSE(training.p.has_gradient());
  CHECK(scaler.scale() == 1.0);
  CHECK(scaler.overflows() == 3);
  CHECK(training.step(scaler, 5.0));
  CHECK(training.p.value().item() == -5.0);
}

TEST_CASE("loss scaler: a skipped step leaves Adam's moments and its count of steps") {
  Parameter p("p", tensor({0}));
  Parameter* const list[] = {&p};
  Adam adam(list, {.learning_rate = 0.1});
  LossScaler scaler({.initial_scale = 1.0});
  const auto step = [&](double gradient) {
    p.add_gradient(tensor({gradient}));
    scaler.unscale(list);
    scaler.step(adam);
    scaler.update();
  };
  step(1.0);
  step(kInfinity);
  CHECK(adam.state()[0].second == close({0.1}));  // the first moment after one step of gradient 1
  CHECK(adam.state()[2].second.item() == 1.0);    // steps
  step(1.0);
  CHECK(p.value() == close({-0.2}));  // as two steps of gradient 1 alone
}

TEST_CASE("loss scaler: the scale doubles after the interval without an overflow, and an overflow starts it anew") {
  Training training;
  LossScaler scaler({.initial_scale = 8.0, .growth_interval = 3});
  training.step(scaler, 1.0);
  training.step(scaler, 1.0);
  CHECK(scaler.scale() == 8.0);
  training.step(scaler, 1.0);
  CHECK(scaler.scale() == 16.0);
  training.step(scaler, 1.0);
  training.step(scaler, 1.0);
  training.step(scaler, kInfinity);
  CHECK(scaler.scale() == 8.0);
  training.step(scaler, 1.0);
  training.step(scaler, 1.0);
  CHECK(scaler.scale() == 8.0);
  training.step(scaler, 1.0);
  CHECK(scaler.scale() == 16.0);
}

TEST_CASE("loss scaler: the scale doesn't grow beyond float32") {
  Training training;
  LossScaler scaler({.initial_scale = 0x1p127, .growth_interval = 1});
  training.step(scaler, 1.0);
  CHECK(scaler.scale() == 0x1p127);
}

TEST_CASE("loss scaler: the minimum may be below 1, and the scale stops there") {
  Training training;
  LossScaler scaler({.initial_scale = 1.0, .minimum = 0.25});
  for (const double expected : {0.5, 0.25, 0.25}) {
    training.step(scaler, kInfinity);
    CHECK(scaler.scale() == expected);
  }
}

TEST_CASE("loss scaler: endless overflows at the minimum are an error") {
  Training training;
  LossScaler scaler({.initial_scale = 2.0, .most_skips = 3});
  training.step(scaler, kInfinity);  // to the minimum
  training.step(scaler, kInfinity);
  training.step(scaler, kInfinity);
  training.step(scaler, 1.0);  // starts the count anew
  training.step(scaler, kInfinity);
  training.step(scaler, kInfinity);
  try {
    training.step(scaler, kInfinity);
    FAIL("it goes on");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::non_finite);
    CHECK(std::string(error.what())
              .starts_with(
                  "loss scaler: gradients that aren't finite in 3 steps one after another, at the smallest scale 1; "));
  }
}

TEST_CASE("loss scaler: parameters without a gradient are let be") {
  Training training;
  LossScaler scaler;
  CHECK(scaler.unscale(training.list));
  CHECK_FALSE(training.p.has_gradient());
  CHECK(scaler.step(training.sgd));
  CHECK(training.p.value().item() == 0.0);
}

TEST_CASE("loss scaler: gradients that share their storage are divided once") {
  Parameter a("a", tensor({0})), b("b", tensor({0}));
  Parameter* const list[] = {&a, &b};
  const Tensor shared = tensor({8});
  a.add_gradient(shared);
  b.add_gradient(shared);
  LossScaler({.initial_scale = 8.0}).unscale(list);
  CHECK(a.gradient().item() == 1.0);
  CHECK(b.gradient().item() == 1.0);
}

TEST_CASE("loss scaler: one that goes on from a saved state scales alike") {
  Training training;
  LossScaler first({.initial_scale = 8.0, .growth_interval = 3});
  training.step(first, kInfinity);
  training.step(first, 1.0);
  training.step(first, 1.0);
  LossScaler second({.initial_scale = 8.0, .growth_interval = 3});
  second.set_state(first.state());
  CHECK(second.state() == first.state());
  training.step(second, 1.0);
  CHECK(second.scale() == 8.0);  // 4, grown in the third step
}

TEST_CASE("loss scaler: options out of range are refused by name") {
  CHECK_THROWS_WITH_AS(LossScaler({.initial_scale = 0.0}),
                       "loss scaler: initial_scale must be positive and finite, but is 0", Error);
  CHECK_THROWS_WITH_AS(LossScaler({.minimum = kNaN}), "loss scaler: minimum must be positive and finite, but is nan",
                       Error);
  CHECK_THROWS_WITH_AS(LossScaler({.initial_scale = 1.0, .minimum = 2.0}),
                       "loss scaler: minimum 2 must not be above initial_scale 1", Error);
  CHECK_THROWS_AS(LossScaler({.growth_factor = 0.5}), Error);
  CHECK_THROWS_AS(LossScaler({.backoff_factor = 1.0}), Error);
  CHECK_THROWS_AS(LossScaler({.growth_interval = 0}), Error);
  CHECK_THROWS_AS(LossScaler({.most_skips = 0}), Error);
  LossScaler scaler;
  CHECK_THROWS_AS(scaler.set_state({.scale = kInfinity}), Error);
  CHECK_THROWS_AS(scaler.set_state({.scale = 1.0, .overflows = -1}), Error);
}
