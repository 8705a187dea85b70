#include <jnorm/layers/loss_scaler.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/layers/clip.hpp>

namespace jnorm {

namespace {

void expect_positive(const char* option, double value) {
  expect(value > 0.0 && std::isfinite(value), "loss scaler: {} must be positive and finite, but is {}", option, value);
}

}  // namespace

LossScaler::LossScaler(const LossScalerOptions& options) : options_(options), state_{.scale = options.initial_scale} {
  expect_positive("initial_scale", options.initial_scale);
  expect_positive("minimum", options.minimum);
  expect(options.minimum <= options.initial_scale, "loss scaler: minimum {} must not be above initial_scale {}",
         options.minimum, options.initial_scale);
  expect(options.growth_factor >= 1.0 && std::isfinite(options.growth_factor),
         "loss scaler: growth_factor must be at least 1 and finite, but is {}", options.growth_factor);
  expect(options.backoff_factor > 0.0 && options.backoff_factor < 1.0,
         "loss scaler: backoff_factor must be in (0, 1), but is {}", options.backoff_factor);
  expect(options.growth_interval > 0, "loss scaler: growth_interval must be positive, but is {}",
         options.growth_interval);
  expect(options.most_skips > 0, "loss scaler: most_skips must be positive, but is {}", options.most_skips);
}

bool LossScaler::unscale(std::span<Parameter* const> parameters) {
  if (phase_ != Phase::ready) fail(ErrorKind::state, "loss scaler: the gradients are unscaled already; call update()");
  phase_ = Phase::unscaled;
  for (Parameter* parameter : parameters) {
    if (!parameter->has_gradient()) continue;
    // Not in place: two gradients may share their storage, which would then be divided twice.
    Tensor unscaled = affine(parameter->gradient(), 1.0 / state_.scale, 0.0);
    parameter->clear_gradient();
    parameter->add_gradient(std::move(unscaled));
  }
  return finite_ = std::isfinite(gradient_norm(parameters));
}

bool LossScaler::step(Optimizer& optimizer) {
  if (phase_ == Phase::ready) fail(ErrorKind::state, "loss scaler: call unscale() before step()");
  if (phase_ == Phase::stepped) fail(ErrorKind::state, "loss scaler: this step is made already; call update()");
  phase_ = Phase::stepped;
  finite_ ? optimizer.step() : optimizer.skip_step();
  return finite_;
}

void LossScaler::update() {
  if (phase_ == Phase::ready) return;
  phase_ = Phase::ready;
  finite_ ? grow_if_due() : back_off();
}

void LossScaler::back_off() {
  const bool at_minimum = state_.scale <= options_.minimum;
  state_.scale = std::max(options_.minimum, state_.scale * options_.backoff_factor);
  state_.steps_since_change = 0;
  ++state_.overflows;
  state_.skips_at_minimum = at_minimum ? state_.skips_at_minimum + 1 : 0;
  if (state_.skips_at_minimum < options_.most_skips) return;
  fail(ErrorKind::non_finite,
       "loss scaler: gradients that aren't finite in {} steps one after another, at the smallest scale {}; try a lower "
       "learning rate or a smaller minimum",
       state_.skips_at_minimum, state_.scale);
}

void LossScaler::grow_if_due() {
  state_.skips_at_minimum = 0;
  if (++state_.steps_since_change < options_.growth_interval) return;
  state_.steps_since_change = 0;
  const double grown = state_.scale * options_.growth_factor;
  if (grown <= std::numeric_limits<float>::max()) state_.scale = grown;  // the loss may be a float32
}

void LossScaler::set_state(const State& state) {
  expect_positive("scale", state.scale);
  expect(state.steps_since_change >= 0 && state.skips_at_minimum >= 0 && state.overflows >= 0,
         "loss scaler: a count must not be negative, got {}, {} and {}", state.steps_since_change,
         state.skips_at_minimum, state.overflows);
  state_ = state;
  phase_ = Phase::ready;
}

}  // namespace jnorm
