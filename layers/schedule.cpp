#include <jnorm/layers/schedule.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

#include <jnorm/layers/names.hpp>

namespace jnorm {

namespace {

constexpr Named<Decay> kDecays[] = {{"constant", Decay::constant},
                                    {"linear", Decay::linear},
                                    {"cosine", Decay::cosine},
                                    {"inverse_sqrt", Decay::inverse_sqrt}};

bool ends(Decay decay) { return decay == Decay::linear || decay == Decay::cosine; }

}  // namespace

std::string to_string(Decay decay) { return name_of(kDecays, decay); }

Decay decay_from_string(std::string_view name) { return value_named("decay", kDecays, name); }

void Schedule::validate() const {
  expect(base >= 0.0 && std::isfinite(base), "schedule: the base learning rate must be finite and not negative, got {}",
         base);
  expect(warmup_steps >= 0, "schedule: warmup_steps must not be negative, got {}", warmup_steps);
  expect(hold_steps >= 0, "schedule: hold_steps must not be negative, got {}", hold_steps);
  expect(total_steps >= 0, "schedule: total_steps must not be negative, got {}", total_steps);
  expect(!ends(decay) || (total_steps >= warmup_steps && total_steps - warmup_steps >= hold_steps),
         "schedule: {} decay needs total_steps of at least warmup_steps + hold_steps, {} + {}, got {}",
         to_string(decay), warmup_steps, hold_steps, total_steps);
}

double Schedule::learning_rate(Index step) const {
  validate();
  expect(step >= 0, "schedule: steps count from 0, got {}", step);
  if (step + 1 < warmup_steps) return base * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);

  const Index before_decay = warmup_steps + hold_steps;
  if (step < before_decay || decay == Decay::constant) return base;
  if (decay == Decay::inverse_sqrt) {
    const Index since = step + 1 - hold_steps;
    return base * std::sqrt(static_cast<double>(std::max<Index>(warmup_steps, 1)) / static_cast<double>(since));
  }
  const Index decay_steps = total_steps - before_decay;
  if (decay_steps == 0) return base;
  const double progress =
      std::min(1.0, static_cast<double>(step + 1 - before_decay) / static_cast<double>(decay_steps));
  if (decay == Decay::linear) return base * (1.0 - progress);
  return base * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

}  // namespace jnorm
