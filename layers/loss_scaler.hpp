#pragma once

#include <span>

#include <jnorm/autograd/parameter.hpp>
#include <jnorm/layers/optimizer.hpp>

namespace jnorm {

struct LossScalerOptions {
  double initial_scale = 65536.0;
  double growth_factor = 2.0;    // at least 1
  double backoff_factor = 0.5;   // in (0, 1)
  Index growth_interval = 2000;  // steps without an overflow, after which the scale grows
  double minimum = 1.0;          // positive, and may be below 1; the scale doesn't fall further
  Index most_skips = 20;         // overflows one after another at the minimum, after which update() gives up
};

// Dynamic loss scaling (Micikevicius et al. 2018), for gradients that float16 would round to 0. The loss, or backward's
// cotangent, is multiplied by scale(); then, in this order:
//
//   ready     -- unscale -->  unscaled: the gradients are divided by the scale, once, and it is known if they are
//   finite unscaled  -- step ---->   stepped:  the optimizer made its step, or skipped it if a gradient wasn't finite
//   any       -- update -->   ready:    the scale fell after an overflow, or grew after growth_interval steps without
//
// Clipping belongs between unscale and step. A call out of order is an Error(state), but for update(), which is always
// legal and changes nothing if there was no unscale before it.
class LossScaler {
 public:
  explicit LossScaler(const LossScalerOptions& options = {});  // throws Error(argument) on options out of range

  double scale() const { return state_.scale; }
  Index overflows() const { return state_.overflows; }  // in all updates together

  // Returns whether all gradients are finite. Parameters without one are let be.
  bool unscale(std::span<Parameter* const> parameters);
  // Returns whether the optimizer made its step. One that is skipped consumes the gradients all the same; parameters,
  // moments and counts of steps stay, and a schedule of the learning rate should too.
  bool step(Optimizer& optimizer);
  // Throws Error(non_finite) after most_skips overflows one after another at the minimum.
  void update();

  // What a run needs to go on with.
  struct State {
    double scale = 0.0;
    Index steps_since_change = 0;  // without an overflow
    Index skips_at_minimum = 0;    // one after another
    Index overflows = 0;

    friend bool operator==(const State&, const State&) = default;
  };
  const State& state() const { return state_; }
  void set_state(const State& state);  // throws Error(argument) on numbers that can't be

 private:
  enum class Phase { ready, unscaled, stepped };

  void back_off();
  void grow_if_due();

  LossScalerOptions options_;
  State state_;
  Phase phase_ = Phase::ready;
  bool finite_ = true;
};

}  // namespace jnorm
